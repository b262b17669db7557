"""The hindsight replay buffer: storage, priorities and relabelling put together behind SB3's interface."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as SB3HerReplayBuffer

from rlher.her import serialization
from rlher.her.choices import LOST
from rlher.her.done_rule import DoneRule
from rlher.her.layout import ACHIEVED, GOAL
from rlher.her.prioritization import PRIORITIES, Priority
from rlher.her.reward import RewardFunction
from rlher.her.sampler import Drawn, Hindsight
from rlher.her.samples import HerReplayBufferSamples, moved
from rlher.her.storage import Batch, Storage
from rlher.her.strategies import DEFAULT_MIX, GoalSelectionStrategy, check_mix, strategy_of
from rlher.her.validation import check_arguments, check_returns, warn_of_old_arguments

CPU = th.device("cpu")


class HerReplayBuffer(SB3HerReplayBuffer):
    """Hindsight experience replay (arXiv:1707.01495), relabelled when sampled, as fast full as empty.

    A drop-in for ``stable_baselines3.HerReplayBuffer``, which differs where that one is wrong: ``done`` follows
    the new goal (stable-baselines3 #627), reward that no goal explains is kept (openai/baselines #720), and steps
    of a running episode can be sampled, so there is no "first episode" error. ``relabel="sb3"`` takes back the
    first two.

    :param buffer_size: transitions held, over all environments; memory is taken as it fills.
    :param observation_space: dictionary with ``achieved_goal``, ``desired_goal`` and any other keys.
    :param action_space: of one environment.
    :param env: the training environment, for ``compute_reward``; not pickled, see :meth:`set_env`.
    :param device: torch device of the samples.
    :param n_envs: environments stepped together.
    :param optimize_memory_usage: must be False: each observation is stored once in any case.
    :param handle_timeout_termination: bootstrap where ``info["TimeLimit.truncated"]`` (stable-baselines3 #284).
    :param n_sampled_goal: virtual transitions per real one; 0 is plain replay.
    :param goal_selection_strategy: one of :data:`~rlher.her.strategies.KEY_TO_GOAL_STRATEGY`, or SB3's enumeration.
    :param copy_info_dict: store each step's info for ``compute_reward``.
    :param relabel_done: see :class:`~rlher.her.done_rule.DoneRule`.
    :param keep_goal_independent_reward: the virtual reward is ``compute_reward`` under the new goal plus what the
        stored reward was above ``compute_reward`` under the old one, such as a crash penalty.
    :param ends_on_success: whether the environment terminates on success; None: judged from what is stored.
    :param success_reward: ``compute_reward`` from which on a goal counts as reached; None: known if sparse.
    :param compute_reward: in place of the environment's own; takes batches of raw goals.
    :param seed: of the buffer's generator; None: drawn from NumPy's global one, which SB3 seeds.
    :param relabel: ``right``, or ``sb3`` for SB3's exact semantics (done kept, no goal-independent reward).
    :param goal_mix: weights of the strategies in a ``mix``, and of ``original``, the goal as collected.
    :param goal_gamma: discount of the ``geometric`` strategy; None: ``gamma``.
    :param n_steps: steps a return sums up; ``discounts`` of the samples then says how to bootstrap.
    :param gamma: discount of those returns; must be the algorithm's.
    :param priority: which transitions are drawn: ``uniform``, ``energy`` or ``td_error``
        (:mod:`rlher.her.prioritization`).
    :param priority_kwargs: options of that class.
    :param online_sampling: accepted from older versions, with a warning.
    :param max_episode_length: accepted from older versions, with a warning.
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
        goal_selection_strategy: GoalSelectionStrategy | str = "future",
        copy_info_dict: bool = False,
        *,
        relabel_done: str = "auto",
        keep_goal_independent_reward: bool = True,
        ends_on_success: bool | None = None,
        success_reward: float | None = None,
        compute_reward: Callable[..., Any] | None = None,
        seed: int | None = None,
        relabel: str = "right",
        goal_mix: Mapping[str, float] | None = None,
        goal_gamma: float | None = None,
        n_steps: int = 1,
        gamma: float = 0.99,
        priority: str = "uniform",
        priority_kwargs: Mapping[str, Any] | None = None,
        goal_slot_shares: Sequence[float] | None = None,
        online_sampling: bool | None = None,
        max_episode_length: int | None = None,
    ) -> None:
        # Not SB3's own constructors: they allocate a full buffer and a dictionary per slot.
        goal_gamma = gamma if goal_gamma is None else goal_gamma
        check_arguments(buffer_size, observation_space, n_sampled_goal, optimize_memory_usage, relabel)
        check_returns(n_steps, gamma, goal_gamma, priority)
        warn_of_old_arguments(online_sampling, max_episode_length)
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = False
        self.handle_timeout_termination = handle_timeout_termination
        self.copy_info_dict = copy_info_dict
        self.n_sampled_goal = n_sampled_goal
        self.her_ratio = 1 - 1.0 / (n_sampled_goal + 1)
        strategy = strategy_of(goal_selection_strategy)
        self.goal_selection_strategy = strategy  # type: ignore[assignment]
        if relabel == "sb3":
            relabel_done, keep_goal_independent_reward = "keep", False
        self.env = env
        self._reward = None if compute_reward is None else RewardFunction(compute_reward)
        self.rng = np.random.default_rng(np.random.randint(2**32, dtype=np.uint64) if seed is None else seed)
        self.hindsight = Hindsight(
            strategy,
            DoneRule(relabel_done, ends_on_success, success_reward),
            keep_goal_independent_reward,
            mix=check_mix(DEFAULT_MIX if goal_mix is None else goal_mix),
            goal_gamma=goal_gamma,
            n_steps=n_steps,
            gamma=gamma,
            reward=self._reward_function,
            slot_shares=goal_slot_shares,
        )
        self.storage = Storage(self.buffer_size, n_envs, observation_space, action_space)
        self.priority: Priority = PRIORITIES[priority](self.storage, **(priority_kwargs or {}))

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
            ``infos[i]["raw_terminal_observation"]`` is preferred where there is one: SB3 takes the final
            observation back from the normaliser, which has clipped it.
        :param action: (n_envs, …).
        :param reward: (n_envs,).
        :param done: (n_envs,) whether the episode ended.
        :param infos: one dictionary per environment. Where ``infos[i]["lost_step"]`` is set nothing of that
            environment's step is stored, and its episode ends before it, as by a time-out.
        """
        ended = [index for index, end in enumerate(np.asarray(done).tolist()) if end]
        action = np.asarray(action)
        terminated: NDArray | bool = False
        lost: list[int] = []
        if ended:
            next_obs = _raw_ends(next_obs, ended, infos)
            terminated = np.zeros(self.n_envs, dtype=bool)
            for index in ended:
                cut = self.handle_timeout_termination and infos[index].get("TimeLimit.truncated", False)
                terminated[index] = not cut
            lost = [index for index in ended if infos[index].get(LOST)]
        kept = infos if self.copy_info_dict else None
        self.storage.add(obs, next_obs, action, reward, terminated, ended, kept, lost)
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full, self.pos = True, 0

    def truncate_last_trajectory(self) -> None:
        """End the running episodes as a time-out would, because the next step belongs to new ones."""
        if self.storage.truncate_running():
            warnings.warn(
                "The last trajectory in the replay buffer will be truncated.\n"
                "If you are in the same episode as when the replay buffer was saved,\n"
                "you should use `truncate_last_trajectory=False` to avoid that issue.",
                stacklevel=2,
            )

    def reset(self) -> None:
        """Forget everything stored."""
        super().reset()
        self.storage = Storage(self.buffer_size, self.n_envs, self.observation_space, self.action_space)
        self.hindsight.settled = []
        self.priority.reset(self.storage)

    # ------------------------------------------------------------------------------------------------ reading

    @property
    def n_transitions(self) -> int:
        """Transitions that can be sampled, over all environments."""
        return self.storage.count

    @property
    def nbytes(self) -> int:
        """Bytes of memory the stored transitions take."""
        return self.storage.nbytes

    def sample(  # type: ignore[override]
        self, batch_size: int, env: VecNormalize | None = None
    ) -> HerReplayBufferSamples:
        """Draw transitions, real ones first, then virtual ones, in SB3's fixed proportion.

        :param batch_size: transitions to draw, with replacement.
        :param env: normalises observations and rewards, which are stored raw.
        :return: tensors on the buffer's device.
        :raises RuntimeError: nothing is stored yet.
        """
        if self.storage.count == 0:
            raise RuntimeError("The replay buffer is empty: add at least one transition before sampling.")
        virtual = int(self.her_ratio * batch_size)
        if virtual:
            self.hindsight.settle(self.storage)
        slots, weights = self.priority.draw(batch_size, self.rng)
        rows = self.storage.rows_of(slots)
        drawn = self.hindsight.batch(self.storage, rows, batch_size - virtual, self.rng)
        sample = self._tensors(drawn, env)
        if weights is not None:
            weights = weights.astype(np.float32).reshape(-1, 1)
            sample = sample._replace(weights=th.from_numpy(weights), indices=slots)
        return sample if self.device == CPU else moved(sample, th.device(self.device))

    def update_priorities(self, indices: NDArray, td_errors: NDArray | th.Tensor) -> None:
        """Set the priorities of sampled transitions by how wrong the critic was about them.

        :param indices: (batch,) :attr:`HerReplayBufferSamples.indices`.
        :param td_errors: (batch,) or (batch, 1) TD errors; their absolute value counts.
        :raises RuntimeError: the buffer was not built with ``priority="td_error"``.
        """
        errors = td_errors.detach().cpu().numpy() if isinstance(td_errors, th.Tensor) else td_errors
        self.priority.update(indices, np.abs(np.asarray(errors, dtype=np.float64)).reshape(len(indices)))

    def _tensors(self, drawn: Drawn, env: VecNormalize | None) -> HerReplayBufferSamples:
        # Tensors are views of the batch's rows: what they pass through next copies them in any case.
        obs: dict[str, NDArray] = {key: drawn.now[key] for key in self.storage.keys}
        next_obs: dict[str, NDArray] = {key: drawn.after[key] for key in self.storage.keys}
        obs[ACHIEVED], next_obs[ACHIEVED] = drawn.achieved, drawn.next_achieved
        obs[GOAL] = drawn.goals
        if env is not None or drawn.next_goals is not drawn.goals:
            next_obs[GOAL] = drawn.next_goals
        rewards = drawn.rewards.reshape(-1, 1)
        if env is not None:
            obs, next_obs = env.normalize_obs(obs), env.normalize_obs(next_obs)  # type: ignore[assignment]
            rewards = env.normalize_reward(rewards).astype(np.float32)
        discounts = drawn.discounts
        observations = {key: th.from_numpy(value) for key, value in obs.items()}
        next_observations = {key: th.from_numpy(value) for key, value in next_obs.items()}
        next_observations.setdefault(GOAL, observations[GOAL])
        return HerReplayBufferSamples(
            observations=observations,
            actions=th.from_numpy(drawn.now["_action"]),
            next_observations=next_observations,
            dones=th.from_numpy(drawn.dones.reshape(-1, 1)),
            rewards=th.from_numpy(rewards),
            discounts=None if discounts is None else th.from_numpy(discounts.astype(np.float32).reshape(-1, 1)),
        )

    # ---------------------------------------------------------------------------------- environment and pickle

    def set_env(self, env: VecEnv) -> None:
        """Give a loaded buffer the environment whose ``compute_reward`` it calls.

        :raises ValueError: it has one already.
        """
        if self.env is not None:
            raise ValueError("Trying to set env of already initialized environment.")
        self.env = env

    def refresh_env(self) -> None:
        """Take ``compute_reward`` from the environment anew, because the one it was taken from is closed."""
        if self._reward is not None and self._reward.of_env:
            self._reward = None

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

        Priorities are kept, and written whole each time. The very same draws follow a load as followed the save.

        :return: bytes written.
        :raises ValueError: ``copy_info_dict`` is on, and infos may be anything.
        """
        if self.copy_info_dict:
            raise ValueError("A buffer with copy_info_dict=True can only be pickled: infos may be anything.")
        extra = {
            "pos": self.pos,
            "full": self.full,
            "rng": self.rng.bit_generator.state,
            "hindsight": self.hindsight.state(),
        }
        # What is not settled yet is written again by the next save, when it is.
        settles = self.n_sampled_goal > 0 and self.hindsight.settles
        settled = (self.hindsight.settled or [0] * self.n_envs) if settles else None
        return serialization.save(self.storage, folder, settled, extra, self.priority.state())

    def load(self, folder: str | os.PathLike) -> None:
        """Forget everything stored, and take what a folder holds. Running episodes go on.

        :raises ValueError: the folder holds no buffer, one of other spaces, or a damaged one; nothing is stored then.
        """
        self.reset()
        try:
            with serialization.told(folder):
                extra, priorities = serialization.load(self.storage, folder)
                self.pos, self.full = min(int(extra["pos"]), self.buffer_size - 1), bool(extra["full"])
                self.rng.bit_generator.state = extra["rng"]
                self.hindsight.restore(extra["hindsight"], [ring.total for ring in self.storage.rings])
                self.priority.restore(priorities)
                self._require_actions()
        except ValueError:
            self.reset()
            raise

    def _require_actions(self) -> None:
        """Refuse numbers of discrete actions that there are not: they would be an index out of bounds much later."""
        if isinstance(self.action_space, spaces.Discrete):
            actions = self.storage.rows["_action"]
            if actions.min() < 0 or actions.max() >= self.action_space.n:
                raise ValueError("an action that there is not")

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the environment, and a reward function that is bound to one."""
        state = self.__dict__.copy()
        del state["env"]
        if self._reward is None or self._reward.of_env or hasattr(self._reward.call, "__self__"):
            state["_reward"] = None
        return state


def _raw_ends(next_obs: Batch, ended: list[int], infos: list[dict[str, Any]]) -> Batch:
    """Return the next observations with the final ones as the environment gave them."""
    for index in ended:
        raw = infos[index].get("raw_terminal_observation")
        if raw is not None:
            next_obs = {key: np.array(value) for key, value in next_obs.items()}
            for key, value in next_obs.items():
                value[index] = np.reshape(raw[key], value[index].shape)
    return next_obs
