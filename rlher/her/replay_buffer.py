"""The hindsight replay buffer: storage, priorities and relabelling behind SB3's interface."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as SB3HerReplayBuffer

from rlher.her import serialization, validation
from rlher.her.choices import LOST
from rlher.her.demonstrations import NO_ID, demonstration_count, insert
from rlher.her.done_rule import DoneRule
from rlher.her.prioritization import make_priority
from rlher.her.reward import RewardFunction
from rlher.her.sampler import HindsightSampler
from rlher.her.samples import HerReplayBufferSamples, to_device, to_tensors
from rlher.her.static_episodes import StaticEpisodes
from rlher.her.storage import Batch, Indices, Storage
from rlher.her.strategies import strategy_of
from rlher.her.trajectory import PackedEpisodes, Trajectory, pack

CPU = th.device("cpu")


class HerReplayBuffer(SB3HerReplayBuffer):
    """Hindsight experience replay (arXiv:1707.01495): transitions are relabelled when they are sampled.

    A drop-in for ``stable_baselines3.HerReplayBuffer`` with three corrections: ``done`` follows the new goal
    (stable-baselines3 #627), reward that does not depend on the goal is kept (openai/baselines #720), and steps of a
    running episode can be sampled, so there is no "first episode" error. ``relabel="sb3"`` restores SB3's behaviour.

    :param buffer_size: maximum number of transitions over all environments, at least one each; memory is taken as it
        fills.
    :param observation_space: dictionary with ``achieved_goal``, ``desired_goal`` and any other keys.
    :param action_space: of one environment.
    :param env: the training environment, for ``compute_reward``; not pickled, see :meth:`set_env`.
    :param device: torch device of the samples.
    :param n_envs: number of environments stepped together.
    :param optimize_memory_usage: must be False: each observation is stored once in any case.
    :param handle_timeout_termination: bootstrap where ``info["TimeLimit.truncated"]`` (stable-baselines3 #284).
    :param n_sampled_goal: virtual transitions per real one; 0 is plain replay.
    :param goal_selection_strategy: a name of :data:`~rlher.her.choices.KEY_TO_GOAL_STRATEGY`, or SB3's enumeration.
    :param copy_info_dict: store each step's info for ``compute_reward``.
    :param relabel_done: see :class:`~rlher.her.done_rule.DoneRule`.
    :param keep_goal_independent_reward: the virtual reward is ``compute_reward`` under the new goal plus the stored
        reward minus ``compute_reward`` under the old one, such as a crash penalty.
    :param ends_on_success: whether the environment terminates on success; None: inferred from the stored transitions.
    :param success_reward: ``compute_reward`` at or above which a goal counts as reached; None: known if sparse.
    :param compute_reward: instead of the environment's own; takes batches of raw goals.
    :param seed: of the buffer's generator; None: drawn from NumPy's global one, which SB3 seeds.
    :param relabel: ``corrected``, or ``sb3`` for exactly SB3's batches: ``done`` and reward as there, and no steps of
        running episodes.
    :param goal_mix: weights of the strategies in a ``mix``, and of ``original``, the goal as collected.
    :param goal_gamma: discount of the ``geometric`` strategy; None: ``gamma``.
    :param n_steps: steps of a return; ``discounts`` of the samples then holds the discount of the bootstrapped value.
    :param gamma: discount of those returns; must be the algorithm's.
    :param priority: a name of :data:`~rlher.her.choices.PRIORITIES`: which transitions are drawn.
    :param priority_kwargs: options of its class in :mod:`rlher.her.prioritization`.
    :param static_distance: leave out virtual transitions of episodes whose achieved goal stays within this distance of
        the first one (:mod:`rlher.her.static_episodes`); None: keep all.
    :param goal_slot_shares: probability of each slot of a virtual goal (:mod:`rlher.her.goal_slots`); None: no slots.
    :param demonstrations: episodes that are never evicted, and make up a fixed share of each batch; see
        :meth:`set_demonstrations`.
    :param demonstration_fraction: that share.
    :param online_sampling: accepted from older versions, with a warning.
    :param max_episode_length: accepted from older versions, with a warning.
    :raises TypeError: an argument of another type.
    :raises ValueError: an argument out of its range, or no goals in the observation space.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space,
        env: VecEnv | None = None,
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_sampled_goal: int = 4,
        goal_selection_strategy: Enum | str = "future",
        copy_info_dict: bool = False,
        *,
        relabel_done: str = "auto",
        keep_goal_independent_reward: bool = True,
        ends_on_success: bool | None = None,
        success_reward: float | None = None,
        compute_reward: Callable[..., Any] | None = None,
        seed: int | None = None,
        relabel: str = "corrected",
        goal_mix: Mapping[str, float] | None = None,
        goal_gamma: float | None = None,
        n_steps: int = 1,
        gamma: float = 0.99,
        priority: str = "uniform",
        priority_kwargs: Mapping[str, Any] | None = None,
        static_distance: float | None = None,
        goal_slot_shares: Sequence[float] | None = None,
        demonstrations: Sequence[Trajectory] | None = None,
        demonstration_fraction: float = 1 / 8,
        online_sampling: bool | None = None,
        max_episode_length: int | None = None,
    ) -> None:
        arguments = locals()
        validation.validate_space(observation_space)
        validation.validate_types(HerReplayBuffer.__init__, arguments)
        weights = validation.validate_mix(goal_mix)
        validation.validate_arguments(arguments)

        # Not SB3's own constructors: they allocate a full buffer and a dictionary per slot.
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = False
        self.handle_timeout_termination = handle_timeout_termination
        self.copy_info_dict = copy_info_dict
        self.n_sampled_goal = n_sampled_goal
        self.her_ratio = 1 - 1.0 / (n_sampled_goal + 1)
        self.goal_selection_strategy = strategy_of(goal_selection_strategy)  # type: ignore[assignment]
        self.relabel = relabel
        if relabel == "sb3":
            relabel_done, keep_goal_independent_reward = "keep", False
        self.env = env
        self._reward = None if compute_reward is None else RewardFunction(compute_reward)
        self.rng = np.random.default_rng(np.random.randint(2**32, dtype=np.uint64) if seed is None else seed)
        self.sampler = HindsightSampler(
            strategy_of(goal_selection_strategy),
            DoneRule(relabel_done, ends_on_success, success_reward),
            keep_goal_independent_reward,
            mix=weights,
            goal_gamma=gamma if goal_gamma is None else goal_gamma,
            n_steps=n_steps,
            gamma=gamma,
            reward=self._reward_function,
            slot_shares=goal_slot_shares,
        )
        self.demonstration_fraction = demonstration_fraction
        self.storage = self._empty_storage()
        self.priority = make_priority(priority, self.storage, **(priority_kwargs or {}))
        self.static_episodes = None if static_distance is None else StaticEpisodes(static_distance, self.storage)
        if demonstrations is not None:
            self.set_demonstrations(demonstrations)

    def _empty_storage(self, fixed: PackedEpisodes | None = None) -> Storage:
        spaces_and_size = self.buffer_size, self.n_envs, self.observation_space, self.action_space
        storage = Storage(*spaces_and_size, sample_running=self.relabel != "sb3", fixed=fixed)
        if self.sampler.slot_shares is not None:
            storage.goal_slots = len(self.sampler.slot_shares)
        return storage

    def set_demonstrations(self, demonstrations: Sequence[Trajectory]) -> None:
        """Add demonstrations to an empty buffer; they are kept when the buffer is emptied.

        Stable-Baselines3 pickles the buffer's arguments into each file of ``model.save``, but not what is added here.

        :raises ValueError: there are none, they do not fit the spaces, transitions are stored already, or infos are
            stored, which demonstrations do not have.
        """
        if self.storage.count or self.copy_info_dict:
            reason = "copy_info_dict=True needs infos, which they lack" if self.copy_info_dict else "it is not empty"
            raise ValueError(f"demonstrations cannot be added to this replay buffer: {reason}.")
        self._clear(pack(demonstrations, self.storage.layout, self.action_space))
        self._validate_actions()

    # ------------------------------------------------------------------------------------------------ writing

    def add(  # type: ignore[override]
        self,
        obs: Batch,
        next_obs: Batch,
        action: NDArray,
        reward: NDArray,
        done: NDArray,
        infos: list[dict[str, Any]],
    ) -> None:
        """Store one step of every environment, raw (not normalised).

        :param obs: (n_envs, …) observations by key.
        :param next_obs: (n_envs, …) observations after the step. At an episode's end,
            ``infos[i]["raw_terminal_observation"]`` is used if present: SB3 recovers the final observation from the
            normalised one, which is clipped.
        :param action: (n_envs, …).
        :param reward: (n_envs,).
        :param done: (n_envs,) whether the episode ended.
        :param infos: one dictionary per environment. Where ``infos[i]["lost_step"]`` is true, that environment's
            step is not stored, and its episode ends before it, as by a time-out.
        """
        ended = [index for index, end in enumerate(np.asarray(done).tolist()) if end]
        action = np.asarray(action)
        terminated: NDArray | bool = False
        lost: list[int] = []
        if ended:
            next_obs = _with_raw_ends(next_obs, ended, infos)
            terminated = np.zeros(self.n_envs, dtype=bool)
            for index in ended:
                timed_out = self.handle_timeout_termination and infos[index].get("TimeLimit.truncated", False)
                terminated[index] = not timed_out
            lost = [index for index in ended if infos[index].get(LOST)]
        stored_infos = infos if self.copy_info_dict else None
        self.storage.add(obs, next_obs, action, reward, terminated, ended, stored_infos, lost)
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full, self.pos = True, 0

    def truncate_last_trajectory(self) -> None:
        """End the running episodes as a time-out does, because the next step belongs to new ones.

        As in SB3 their last step is terminal with ``handle_timeout_termination=False``.
        """
        if self.storage.truncate_running(terminated=not self.handle_timeout_termination):
            warnings.warn(
                "The last trajectory in the replay buffer will be truncated.\n"
                "If you are in the same episode as when the replay buffer was saved,\n"
                "you should use `truncate_last_trajectory=False` to avoid that issue.",
                stacklevel=2,
            )

    def reset(self) -> None:
        """Empty the buffer, except for demonstrations, and reset everything inferred from the transitions."""
        self._clear(self.storage.fixed_episodes())

    def _clear(self, fixed: PackedEpisodes | None) -> None:
        super().reset()
        self.storage = self._empty_storage(fixed)
        self.sampler.goal_independent.reset()
        self.priority.reset(self.storage)
        if self.static_episodes is not None:
            self.static_episodes.reset(self.storage)

    # ------------------------------------------------------------------------------------------------ reading

    @property
    def n_transitions(self) -> int:
        """Transitions held, over all environments."""
        return self.storage.count

    @property
    def has_demonstrations(self) -> bool:
        """Whether demonstrations were added; they are not part of :attr:`n_transitions`."""
        return len(self.storage.fixed_rows) > 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the stored transitions take."""
        return self.storage.nbytes

    def sample(  # type: ignore[override]
        self, batch_size: int, env: VecNormalize | None = None
    ) -> HerReplayBufferSamples:
        """Draw transitions, real ones first, then virtual ones, in SB3's fixed proportion unless some are left out.

        With demonstrations, a fixed share of both is drawn from them.

        :param batch_size: transitions to draw, with replacement.
        :param env: normalises observations and rewards, which are stored raw.
        :return: tensors on the buffer's device.
        :raises ValueError: ``batch_size`` is no whole number of at least 1.
        :raises RuntimeError: nothing is stored yet; with ``relabel="sb3"``, no episode has ended yet.
        """
        if type(batch_size) is not int or batch_size < 1:
            validation.validate_integer("batch_size", batch_size, 1)
        if self.storage.n_drawable == 0:
            raise RuntimeError(self._empty_message())
        count = demonstration_count(batch_size, self.demonstration_fraction) if self.has_demonstrations else 0
        virtual = int(self.her_ratio * count)
        slots, weights, drawn_virtual = self._draw(batch_size - count, int(self.her_ratio * batch_size) - virtual)
        rows = self.storage.rows_of(slots)
        n_real = len(rows) - drawn_virtual
        places = slice(n_real, n_real + count)  # around the border between real and virtual transitions
        if count:
            rows = insert(rows, places, self.storage.draw_fixed(count, self.rng))
        sample = self._relabelled(rows, n_real + count - virtual, env)
        if weights is not None:
            weights, ids = weights.astype(np.float32), self.storage.ids_of(slots)
            if count:
                weights, ids = insert(weights, places, 1.0), insert(ids, places, NO_ID)
            sample = sample._replace(weights=th.from_numpy(weights.reshape(-1, 1)), indices=ids)
        if count:
            sample = sample._replace(demonstrations=places)
        return sample if self.device == CPU else to_device(sample, th.device(self.device))

    def _draw(self, count: int, virtual: int) -> tuple[Indices, NDArray | None, int]:
        """Return (count,) slots, their weights, and how many of them get virtual goals."""
        if self.static_episodes is None:
            return *self.priority.draw(count, self.rng), virtual
        return self.static_episodes.draw(count, self.n_sampled_goal, lambda n: self.priority.draw(n, self.rng))

    def sample_demonstrations(
        self, batch_size: int, env: VecNormalize | None = None, relabel: bool = True
    ) -> HerReplayBufferSamples:
        """Draw transitions of the demonstrations alone; other parameters and the result are as in :meth:`sample`.

        :param relabel: give the usual share of them virtual goals.
        :raises RuntimeError: there are no demonstrations.
        """
        if not self.has_demonstrations:
            raise RuntimeError("the replay buffer has no demonstrations; add some with set_demonstrations.")
        rows = self.storage.draw_fixed(batch_size, self.rng)
        n_real = batch_size - int(self.her_ratio * batch_size) if relabel else batch_size
        sample = self._relabelled(rows, n_real, env)._replace(demonstrations=slice(0, batch_size))
        return sample if self.device == CPU else to_device(sample, th.device(self.device))

    def _relabelled(self, rows: Indices, n_real: int, env: VecNormalize | None) -> HerReplayBufferSamples:
        """Return the transitions at those rows; all but the first ``n_real`` get new goals."""
        return to_tensors(self.sampler.batch(self.storage, rows, n_real, self.rng), self.storage.keys, env)

    def _empty_message(self) -> str:
        if self.storage.count:
            return 'no episode has ended, and relabel="sb3" draws from finished ones; increase learning_starts.'
        return "the replay buffer is empty; add at least one transition before sampling."

    def update_priorities(self, indices: NDArray, td_errors: NDArray | th.Tensor) -> None:
        """Set the priorities of sampled transitions by their TD errors; evicted transitions are ignored.

        :param indices: (batch,) :attr:`HerReplayBufferSamples.indices`.
        :param td_errors: (batch,) or (batch, 1) TD errors, of which the absolute value is used.
        :raises RuntimeError: the buffer was not built with ``priority="td_error"``.
        :raises ValueError: an error is not finite, or too large.
        """
        errors = td_errors.detach().cpu().numpy() if isinstance(td_errors, th.Tensor) else td_errors
        self.priority.update(indices, np.abs(np.asarray(errors, dtype=np.float64)).reshape(len(indices)))

    # ---------------------------------------------------------------------------------- environment and pickle

    def set_env(self, env: VecEnv) -> None:
        """Give a loaded buffer the environment whose ``compute_reward`` it calls.

        :raises ValueError: it already has one.
        """
        if self.env is not None:
            raise ValueError("Trying to set env of already initialized environment.")
        self.env = env

    def refresh_env(self) -> None:
        """Take ``compute_reward`` from the environment again, after its environments were replaced."""
        if self._reward is not None and self._reward.of_env:
            self._reward = None

    @property
    def samples_while_env_steps(self) -> bool:
        """Whether batches can be sampled during a step of the environment: ``compute_reward`` runs in this process."""
        return not self._reward_function().remote

    def _reward_function(self) -> RewardFunction:
        if self._reward is None:
            if self.env is None:
                raise RuntimeError(
                    "HerReplayBuffer needs an environment for the rewards of virtual transitions: "
                    "pass env= or compute_reward=, or call set_env() after loading."
                )
            self._reward = RewardFunction.of(self.env)
        return self._reward

    def save(self, folder: str | os.PathLike) -> int:
        """Save to a folder of plain arrays, writing only what is new since the last save there.

        Priorities are written whole each time. After a load the same draws follow as after the save.

        :return: bytes written.
        :raises ValueError: with ``copy_info_dict``, because infos may be any objects.
        """
        if self.copy_info_dict:
            raise ValueError(
                "copy_info_dict=True cannot be saved to a folder, since infos may be any objects; pickle it."
            )
        part = self.sampler.goal_independent
        extra = {
            "pos": self.pos,
            "full": self.full,
            "rng": self.rng.bit_generator.state,
            "hindsight": part.state(),
        }
        # The next save writes again the transitions whose goal-independent reward is not computed yet.
        will_change = part.is_needed and (self.n_sampled_goal > 0 or self.sampler.slot_shares is not None)
        computed = (part.computed or [0] * self.n_envs) if will_change else None
        return serialization.save(
            self.storage,
            folder,
            computed,
            extra,
            self.priority.state(),
            fixed_final=not will_change or bool(part.computed),
        )

    def load(self, folder: str | os.PathLike) -> None:
        """Replace everything stored with the content of a folder. Running episodes continue.

        Demonstrations are replaced if there are some in the folder.

        :raises ValueError: the folder holds no buffer, one of other spaces, or a damaged one; the buffer is then empty.
        """
        own = self.storage.fixed_episodes()
        try:
            with serialization.as_value_error(folder):
                fixed = serialization.load_fixed(self.storage, folder)
                self._clear(own if fixed is None else fixed)
                extra, priorities = serialization.load(self.storage, folder)
                self.pos, self.full = min(int(extra["pos"]), self.buffer_size - 1), bool(extra["full"])
                self.rng.bit_generator.state = extra["rng"]
                totals = [ring.total for ring in self.storage.rings]
                self.sampler.goal_independent.restore(extra["hindsight"], totals)
                self.priority.restore(priorities)
                self._validate_actions()
        except ValueError:
            self._clear(own)
            raise

    def _validate_actions(self) -> None:
        """Raise ValueError for discrete actions out of range, which would be an index out of bounds much later."""
        if isinstance(self.action_space, spaces.Discrete):
            rows = [self.storage.rows_of(ring.newest(ring.count)) for ring in self.storage.rings]
            actions = self.storage.rows["_action"][np.concatenate([*rows, self.storage.fixed_rows])]
            low = self.action_space.start
            if not ((low <= actions) & (actions < low + self.action_space.n)).all():
                raise ValueError("an action is out of range")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the environment and a reward function that belongs to one."""
        state = self.__dict__.copy()
        del state["env"]
        if self._reward is None or self._reward.of_env or hasattr(self._reward.call, "__self__"):
            state["_reward"] = None
        return state


def _with_raw_ends(next_obs: Batch, ended: list[int], infos: list[dict[str, Any]]) -> Batch:
    """Return the next observations with the final ones as the environment returned them, where known."""
    for index in ended:
        raw = infos[index].get("raw_terminal_observation")
        if raw is not None:
            next_obs = {key: np.array(value) for key, value in next_obs.items()}
            for key, value in next_obs.items():
                value[index] = np.reshape(raw[key], value[index].shape)
    return next_obs
