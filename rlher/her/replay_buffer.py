"""The hindsight replay buffer: stored transitions are sampled and relabelled, behind SB3's interface."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as SB3HerReplayBuffer

from rlher.her import saving
from rlher.her.priorities import Priority, checked_sample, resolve_priority
from rlher.her.reward_and_done import Relabeller, RewardStatistics
from rlher.her.reward_function import RewardFunction
from rlher.her.storage import ACHIEVED_GOAL, DESIRED_GOAL, Ids, Layout, Observations, Storage
from rlher.her.strategies import GoalRequest, Strategy, resolve_strategy
from rlher.her.trajectories import Trajectory, store_demonstrations

CPU = th.device("cpu")


class HerReplayBufferSamples(NamedTuple):
    """The fields of SB3's ``DictReplayBufferSamples``, and further fields for priorities and demonstrations.

    :param observations: (batch, …) tensors by key.
    :param actions: (batch, action_dim).
    :param next_observations: (batch, …) tensors by key.
    :param dones: (batch, 1), 1 where the target does not bootstrap.
    :param rewards: (batch, 1).
    :param discounts: (batch, 1) discount of the bootstrapped value, None with one-step returns.
    :param weights: (batch, 1) importance weights, None without priorities by TD error.
    :param indices: (batch,) ids of the transitions for ``update_priorities``, None without such priorities.
    :param demonstration_slice: slice of the batch that holds demonstrations, None if there are none.
    """

    observations: dict[str, th.Tensor]
    actions: th.Tensor
    next_observations: dict[str, th.Tensor]
    dones: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor | None = None
    weights: th.Tensor | None = None
    indices: NDArray | None = None
    demonstration_slice: slice | None = None


class HerReplayBuffer(SB3HerReplayBuffer):
    """Hindsight experience replay (arXiv:1707.01495): transitions are relabelled when they are sampled.

    A drop-in for ``stable_baselines3.HerReplayBuffer`` with three corrections: ``done`` follows the virtual goal
    (stable-baselines3 #627), the goal-independent part of a reward is kept (openai/baselines #720), and steps of a
    running episode can be sampled, so there is no "first episode" error. For SB3's ``done`` and rewards, use
    ``relabel_done="keep"`` and ``keep_goal_independent_reward=False``.

    :param buffer_size: maximum number of transitions over all environments; each environment gets at least one. The
        buffer takes memory as it fills.
    :param observation_space: dictionary with ``achieved_goal``, ``desired_goal`` and any other keys.
    :param action_space: action space of one environment.
    :param env: the training environment, whose ``compute_reward`` is called. It is not pickled, see :meth:`set_env`.
    :param device: torch device of the samples.
    :param n_envs: number of environments stepped together.
    :param optimize_memory_usage: must be False: each observation is stored once in any case.
    :param handle_timeout_termination: bootstrap if ``info["TimeLimit.truncated"]`` is true (stable-baselines3 #284).
    :param n_sampled_goal: virtual transitions per real one; 0 is plain replay.
    :param goal_selection_strategy: a name of ``STRATEGIES``, SB3's enumeration, or a function, see
        :mod:`rlher.her.strategies`.
    :param copy_info_dict: must be False: ``compute_reward`` gets empty infos.
    :param relabel_done: see :class:`~rlher.her.reward_and_done.Relabeller`.
    :param keep_goal_independent_reward: keep the goal-independent part of the stored reward, such as a crash penalty:
        stored reward minus ``compute_reward`` under the original goal.
    :param ends_on_success: whether the environment terminates on success. If None, the buffer infers it from the stored
        transitions.
    :param success_reward: ``compute_reward`` at or above which a goal counts as reached. If None, the greater value of
        a sparse reward.
    :param compute_reward: function to call in place of the environment's; it takes batches of raw goals.
    :param seed: seed of the buffer's generator. If None, it is drawn from NumPy's global generator, which SB3 seeds.
    :param goal_selection_kwargs: keyword arguments of a user's strategy, also in a ``mix``.
    :param goal_mix: weights of the strategies in a ``mix``, and of ``original``, the original goal.
    :param goal_mix_start: number of stored transitions at which a ``mix`` begins; until then it samples as ``future``.
    :param n_steps: steps of a return. If above 1, ``discounts`` of the samples holds the discount of the bootstrapped
        value.
    :param gamma: discount of the returns, and of the ``geometric`` strategy; must be the algorithm's.
    :param priority: which transitions are sampled: a name of :data:`~rlher.her.priorities.PRIORITIES`, or a subclass of
        :class:`~rlher.her.priorities.Priority`, also as ``module:Class``.
    :param priority_kwargs: arguments of the priority's class, see :mod:`rlher.her.priorities`.
    :param goal_parts: number of parts of a goal. A virtual goal uses one part
        (:func:`rlher.her.strategies.keep_one_part`).
    :param demonstration_fraction: share of each batch that is sampled from demonstrations, see
        :meth:`set_demonstrations`.
    :raises TypeError: ``priority_kwargs`` has an option that the priority lacks.
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
        goal_selection_strategy: Enum | str | Strategy = "future",
        copy_info_dict: bool = False,
        *,
        relabel_done: str = "auto",
        keep_goal_independent_reward: bool = True,
        ends_on_success: bool | None = None,
        success_reward: float | None = None,
        compute_reward: Callable[..., Any] | None = None,
        seed: int | None = None,
        goal_selection_kwargs: Mapping[str, Any] | None = None,
        goal_mix: Mapping[str | Strategy, float] | None = None,
        goal_mix_start: int = 0,
        n_steps: int = 1,
        gamma: float = 0.99,
        priority: str | type[Priority] = "uniform",
        priority_kwargs: Mapping[str, Any] | None = None,
        goal_parts: int = 1,
        demonstration_fraction: float = 1 / 8,
    ) -> None:
        _require_in_range(1, math.inf, buffer_size=buffer_size, n_envs=n_envs, n_steps=n_steps, goal_parts=goal_parts)
        _require_in_range(0, math.inf, n_sampled_goal=n_sampled_goal)
        _require_in_range(0, 1, gamma=gamma, demonstration_fraction=demonstration_fraction)
        if optimize_memory_usage:
            raise ValueError("optimize_memory_usage=True is not supported; each observation is stored once anyway.")
        if copy_info_dict:
            raise ValueError(
                "copy_info_dict=True is not supported; put what the reward needs into the goals. "
                "keep_goal_independent_reward=True keeps the part of a reward that does not depend on the goal."
            )
        goal_size = _goal_size(observation_space)
        if goal_size % goal_parts:
            raise ValueError(f"goal_parts={goal_parts} does not divide a goal of {goal_size} entries.")

        # Not SB3's own constructors: they allocate a full buffer and a dictionary per transition.
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = False
        self.handle_timeout_termination = handle_timeout_termination
        self.copy_info_dict = False

        self.n_sampled_goal = n_sampled_goal
        self.her_ratio = 1 - 1.0 / (n_sampled_goal + 1)
        self.goal_selection_strategy = goal_selection_strategy  # type: ignore[assignment]
        self.strategy = resolve_strategy(
            goal_selection_strategy, goal_selection_kwargs, mix_weights=goal_mix, mix_start=goal_mix_start
        )
        self.n_steps = n_steps
        self.gamma = gamma
        self.env = env
        self.compute_reward = compute_reward
        self.rng = np.random.default_rng(np.random.randint(2**32, dtype=np.uint64) if seed is None else seed)
        self.demonstration_fraction = demonstration_fraction

        shapes: Any = self.obs_shape
        observation = {key: (space.dtype, shapes[key]) for key, space in observation_space.spaces.items()}
        layout = Layout(observation, action_space.dtype, self.action_dim, goal_parts)
        storage = Storage(self.buffer_size, n_envs, layout)
        self._make_relabeller = partial(
            Relabeller,
            reward_function=RewardFunction(self._call_compute_reward),
            relabel_done=relabel_done,
            keep_goal_independent_reward=keep_goal_independent_reward,
            ends_on_success=ends_on_success,
            success_reward=success_reward,
        )
        priority_class: Any = resolve_priority(priority)
        self._make_priority = partial(priority_class, **(priority_kwargs or {}))
        self._set_storage(storage)

    def _set_storage(self, storage: Storage) -> None:
        """Replace the storage, the priorities and the reward statistics."""
        self.storage = storage
        self.relabeller = self._make_relabeller(storage)
        self.priority = self._make_priority(storage)
        self._update_sb3_counters()

    def _update_sb3_counters(self) -> None:
        """Set what Stable-Baselines3 reads of a buffer: the next position of a ring, and whether the rings are full."""
        self.pos = self.storage.steps_added % self.buffer_size
        self.full = self.storage.steps_added >= self.buffer_size

    def set_demonstrations(self, demonstrations: Sequence[Trajectory]) -> None:
        """Add demonstrations to an empty buffer. They are never evicted, and make up a fixed share of each batch.

        :raises ValueError: there are none, they do not fit the spaces, or transitions are stored already.
        """
        if self.storage.n_transitions:
            raise ValueError("set_demonstrations needs an empty buffer; call it before the first step.")
        if not demonstrations:
            raise ValueError("there are no demonstrations; give at least one trajectory.")
        storage = Storage(self.buffer_size, self.n_envs, self.storage.layout, sum(map(len, demonstrations)))
        store_demonstrations(storage, demonstrations, self.action_space)
        self._set_storage(storage)

    # ------------------------------------------------------------------------------------------------ writing

    def add(  # type: ignore[override]
        self,
        obs: Observations,
        next_obs: Observations,
        action: NDArray,
        reward: NDArray,
        done: NDArray,
        infos: list[dict[str, Any]],
    ) -> None:
        """Store one step of every environment, raw (not normalised).

        :param obs: (n_envs, …) observations by key.
        :param next_obs: (n_envs, …) observations after the step.
        :param action: (n_envs, …).
        :param reward: (n_envs,).
        :param done: (n_envs,) whether the episode ended.
        :param infos: one dictionary per environment.
        """
        timed_out = [self.handle_timeout_termination and info.get("TimeLimit.truncated", False) for info in infos]
        done = np.asarray(done, dtype=bool)
        terminated = done & ~np.array(timed_out, dtype=bool)
        self.storage.add(obs, next_obs, np.asarray(action), reward, done, terminated)
        self._update_sb3_counters()

    def truncate_last_trajectory(self) -> None:
        """Truncate the running episodes, because the next step belongs to new episodes.

        As in SB3, their last step is terminal if ``handle_timeout_termination`` is False.
        """
        self.storage.truncate_running(terminated=not self.handle_timeout_termination)

    def reset(self) -> None:
        """Empty the buffer, except for demonstrations, and reset everything inferred from the transitions."""
        self.storage.clear()
        self._set_storage(self.storage)

    # ------------------------------------------------------------------------------------------------ reading

    @property
    def n_transitions(self) -> int:
        """Number of stored transitions of all environments, without demonstrations."""
        return self.storage.n_transitions

    def sample(  # type: ignore[override]
        self, batch_size: int, env: VecNormalize | None = None
    ) -> HerReplayBufferSamples:
        """Sample transitions. The first ones keep their original goals; the others get virtual goals.

        The share of virtual goals is ``n_sampled_goal / (n_sampled_goal + 1)``. If there are demonstrations, a fixed
        share of the batch is sampled from them, with the same share of virtual goals.

        An example with ``batch_size=5`` and ``n_sampled_goal=4``. The buffer holds seven transitions of two episodes,
        and the second episode still runs. Transition 1 achieved the goal ``achieved[1]``, and so on::

            transition  0  1  2  3  4  5  6
            episode     0  0  0  1  1  1  1

        Five transitions are sampled, say [5, 1, 4, 0, 3]. The first transition keeps its goal, because
        int(4 / 5 * 5) = 4 get virtual goals. For each of these four, ``future`` chooses the transition itself or a
        later one of its episode: from [1, 2] for 1, from [4, 5, 6] for 4, from [0, 1, 2] for 0, and from [3, 4, 5, 6]
        for 3. If it chooses [2, 6, 0, 5], the goals of the batch are [goal of episode 1, ``achieved[2]``,
        ``achieved[6]``, ``achieved[0]``, ``achieved[5]``]. Transition 0 got the goal that it achieved itself. Its
        sparse reward is therefore the reward of success, and it is ``done`` if episodes end on success.

        :param batch_size: number of transitions to sample, with replacement.
        :param env: normalises the observations and rewards, which the buffer stores raw.
        :return: tensors on the buffer's device.
        :raises RuntimeError: nothing is stored yet.
        """
        if self.storage.n_transitions == 0:
            raise RuntimeError("the replay buffer is empty; add at least one transition before sampling.")
        ids, weights = checked_sample(self.priority, batch_size, self.rng)
        n_original = self._n_original_goals(batch_size)
        demonstration_slice = None
        if self.storage.demonstration_steps > 0 and self.demonstration_fraction > 0 and batch_size > 1:
            # Replace a block of the batch by demonstrations: at least one transition, and never all.
            count = min(max(round(self.demonstration_fraction * batch_size), 1), batch_size - 1)
            # The block contains the border between original and virtual goals, so that demonstrations keep their goals
            # as often as other transitions do.
            start = n_original - self._n_original_goals(count)
            demonstration_slice = slice(start, start + count)
            ids[demonstration_slice] = self.storage.sample_demonstrations(count, self.rng)
            if weights is not None:
                weights[demonstration_slice] = 1
        return self._build_samples(ids, n_original, env)._replace(
            weights=None if weights is None else self._column(weights),
            indices=ids if self.priority.uses_td_errors() else None,
            demonstration_slice=demonstration_slice,
        )

    def _build_samples(self, ids: Ids, n_original: int, env: VecNormalize | None) -> HerReplayBufferSamples:
        """Return transitions as tensors.

        :param n_original: number of transitions, at the beginning, that keep their original goals. The others get
            virtual goals.
        """
        storage = self.storage
        positions = storage.positions(ids)
        rows = storage.rows_at(positions)
        episodes = rows["episode"]
        goals = rows["obs"][DESIRED_GOAL]
        if n_original < len(ids):
            request = GoalRequest(ids[n_original:], episodes[n_original:], storage, self.rng, self.gamma)
            goals = np.concatenate((goals[:n_original], self.strategy(request)))
            rows["obs"][DESIRED_GOAL] = goals

        if self.n_steps == 1:
            rewards, dones = self.relabeller.rewards_and_dones(positions, rows, goals, n_original)
            last_ids, discounts = ids, None
        else:
            rewards, dones, n_summed = self.relabeller.n_step_returns(
                ids, episodes, goals, n_original, self.n_steps, self.gamma
            )
            last_ids, discounts = ids + n_summed - 1, self._column(self.gamma**n_summed)

        next_obs = storage.next_obs(last_ids, episodes)
        next_obs[DESIRED_GOAL][n_original:] = goals[n_original:]

        def tensors(packed: NDArray) -> dict[str, th.Tensor]:
            obs: Any = self._normalize_obs({key: packed[key] for key in packed.dtype.names or ()}, env)
            return {key: self.to_torch(value) for key, value in obs.items()}

        return HerReplayBufferSamples(
            observations=tensors(rows["obs"]),
            actions=self.to_torch(rows["action"]),
            next_observations=tensors(next_obs),
            dones=self._column(dones),
            rewards=self._column(self._normalize_reward(rewards, env)),
            discounts=discounts,
        )

    def _column(self, values: NDArray) -> th.Tensor:
        """Return (batch,) numbers as a tensor (batch, 1)."""
        return self.to_torch(values.astype(np.float32, copy=False).reshape(-1, 1))

    def to_torch(self, array: NDArray, copy: bool = False) -> th.Tensor:
        """Return an array as a tensor on the buffer's device, sharing its memory on the CPU; ``copy`` is ignored."""
        tensor = th.from_numpy(array)  # as_tensor takes three times as long
        return tensor if self.device == CPU else tensor.to(self.device)

    def _n_original_goals(self, count: int) -> int:
        """Return how many of ``count`` transitions keep their original goals."""
        return count - int(self.her_ratio * count)

    def sample_demonstrations(self, batch_size: int, env: VecNormalize | None = None) -> HerReplayBufferSamples:
        """Sample transitions of the demonstrations alone, with their original goals; see :meth:`sample`.

        :raises RuntimeError: there are no demonstrations.
        """
        if self.storage.demonstration_steps == 0:
            raise RuntimeError("the replay buffer has no demonstrations; add some with set_demonstrations.")
        ids = self.storage.sample_demonstrations(batch_size, self.rng)
        return self._build_samples(ids, batch_size, env)

    def update_priorities(self, indices: NDArray, td_errors: NDArray | th.Tensor) -> None:
        """Set the priorities of sampled transitions by their TD errors; ignore evicted transitions.

        :param indices: (batch,) :attr:`HerReplayBufferSamples.indices`.
        :param td_errors: (batch,) or (batch, 1) TD errors; their signs do not matter.
        :raises RuntimeError: the buffer was not built with ``priority="td_error"``.
        :raises ValueError: an error is not finite, or too large.
        """
        errors = td_errors.detach().cpu().numpy() if isinstance(td_errors, th.Tensor) else td_errors
        self.priority.update(indices, np.abs(np.asarray(errors, dtype=np.float64)).reshape(len(indices)))

    # ---------------------------------------------------------------------------------- environment and pickle

    def _call_compute_reward(self, *arguments: Any) -> Any:
        """Call the buffer's own ``compute_reward``, or else the environment's; see :meth:`set_env`."""
        if self.compute_reward is not None:
            return self.compute_reward(*arguments)
        if self.env is None:
            raise RuntimeError(
                "HerReplayBuffer needs an environment for the rewards of virtual transitions: "
                "pass env= or compute_reward=, or call set_env() after loading."
            )
        return self.env.env_method("compute_reward", *arguments, indices=[0])[0]

    def save(self, path: str | os.PathLike) -> None:
        """Save to an ``.npz`` file of plain arrays. A loaded buffer samples what this buffer samples from now on."""
        extra = {
            "rng": self.rng.bit_generator.state,
            "observed_rewards": asdict(self.relabeller.statistics),
            "priority": self._priority_text,
        }
        saving.save(self.storage, path, extra, self.priority.state_dict())

    def load(self, path: str | os.PathLike) -> None:
        """Replace all stored transitions, including demonstrations, by those in a file. Running episodes continue.

        :raises ValueError: the file is damaged, holds no buffer, or a buffer with other spaces or another capacity.
            This buffer then keeps its demonstrations and nothing else.
        """
        before = self.storage
        try:
            storage, extra, priorities = saving.load(path, before)
            self._set_storage(storage)
            self.rng.bit_generator.state = extra["rng"]
            self.relabeller.statistics = RewardStatistics(**extra["observed_rewards"])
            if extra["priority"] == self._priority_text:
                self.priority.load_state_dict(priorities)
        except Exception as error:
            self.storage = before
            self.reset()
            raise ValueError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error

    @property
    def _priority_text(self) -> str:
        """Class and arguments of the priority, as JSON. ``load`` restores its state only if they are the same."""
        return json.dumps([type(self.priority).__name__, self._make_priority.keywords], default=str, sort_keys=True)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the environment, and without ``compute_reward`` if it is a method."""
        state: dict[str, Any] = super().__getstate__()
        if hasattr(self.compute_reward, "__self__"):
            state["compute_reward"] = None
        return state


def _require_in_range(low: float, high: float, **arguments: float) -> None:
    """Raise ValueError if one of the named arguments lies outside [``low``, ``high``]."""
    for name, value in arguments.items():
        if not low <= value <= high:
            raise ValueError(f"{name}={value} is invalid; use a number from {low} to {high}.")


def _goal_size(observation_space: spaces.Space) -> int:
    """Return the number of entries of a goal.

    :raises ValueError: the space has no goals, empty ones, or goals of different sizes.
    """
    keys = dict(observation_space.spaces) if isinstance(observation_space, spaces.Dict) else {}
    if missing := sorted({ACHIEVED_GOAL, DESIRED_GOAL} - keys.keys()):
        raise ValueError(f"the observation space has no {' and no '.join(missing)}; use a goal environment.")
    achieved, desired = (int(np.prod(keys[key].shape or ())) for key in (ACHIEVED_GOAL, DESIRED_GOAL))
    if achieved != desired or achieved == 0:
        raise ValueError(
            f"{ACHIEVED_GOAL} has {achieved} entries and {DESIRED_GOAL} {desired}; use the same number above 0."
        )
    return achieved
