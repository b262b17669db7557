"""The hindsight replay buffer: storage, strategy and relabelling put together behind SB3's interface."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as SB3HerReplayBuffer

from rlher.her.goals import DEFAULT_MIX, KEEP, STRATEGIES, Draw, GoalSelectionStrategy, check_mix, strategy_of
from rlher.her.relabel import DoneRule, goal_independent
from rlher.her.reward import RewardFunction
from rlher.her.storage import TERMINATED, Batch, Indices, Storage

CHUNK = 16_384
"""Transitions settled in one call of ``compute_reward``."""


class HerReplayBufferSamples(NamedTuple):
    """SB3's ``DictReplayBufferSamples``, field for field, and what prioritised replay needs.

    :param observations: (batch, …) tensors by key.
    :param actions: (batch, action_dim).
    :param next_observations: (batch, …) tensors by key.
    :param dones: (batch, 1), 1 where nothing is bootstrapped.
    :param rewards: (batch, 1).
    :param discounts: (batch, 1) discount of the bootstrapped value, None with one-step returns.
    :param weights: (batch, 1) importance weights, None without priorities by TD error.
    :param indices: (batch,) what ``update_priorities`` takes, None without such priorities.
    """

    observations: dict[str, th.Tensor]
    actions: th.Tensor
    next_observations: dict[str, th.Tensor]
    dones: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor | None = None
    weights: th.Tensor | None = None
    indices: NDArray | None = None


class HerReplayBuffer(SB3HerReplayBuffer):
    """Hindsight experience replay (arXiv:1707.01495), relabelled at sampling, in time that does not grow with
    size.

    A drop-in for ``stable_baselines3.HerReplayBuffer``, which differs where that one is wrong: ``done``
    follows the new goal (stable-baselines3 #627), reward that no goal explains is kept (openai/baselines
    #720), and steps of a
    running episode can be sampled, so there is no "first episode" error. ``relabel="sb3"`` restores the first
    two.

    :param buffer_size: transitions held, over all environments; memory is taken as it fills.
    :param observation_space: dictionary with ``observation``, ``achieved_goal``, ``desired_goal`` and any
        others.
    :param action_space: of one environment.
    :param env: the training environment, for ``compute_reward``; not pickled, see :meth:`set_env`.
    :param device: torch device of the samples.
    :param n_envs: environments stepped together.
    :param optimize_memory_usage: must be False: each observation is stored once in any case.
    :param handle_timeout_termination: bootstrap where ``info["TimeLimit.truncated"]`` (stable-baselines3
        #284).
    :param n_sampled_goal: virtual transitions per real one; 0 is plain replay.
    :param goal_selection_strategy: one of :data:`~rlher.her.goals.KEY_TO_GOAL_STRATEGY`, or SB3's
        enumeration.
    :param copy_info_dict: store each step's info for ``compute_reward``.
    :param relabel_done: see :class:`~rlher.her.relabel.DoneRule`.
    :param keep_goal_independent_reward: the virtual reward is ``compute_reward`` under the new goal plus what
        the stored reward was above ``compute_reward`` under the old one, such as a crash penalty.
    :param ends_on_success: whether the environment terminates on success; None: judged from what is stored.
    :param success_reward: ``compute_reward`` from which on a goal counts as reached; None: known if it is
        sparse.
    :param compute_reward: in place of the environment's own; takes batches of raw goals.
    :param seed: of the buffer's generator; None: drawn from NumPy's global one, which SB3 seeds.
    :param relabel: ``right``, or ``sb3`` for SB3's exact semantics (done kept, no goal-independent reward).
    :param goal_mix: weights of the strategies in a ``mix``, and of ``original``.
    :param goal_gamma: discount of the ``geometric`` strategy.
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
        goal_gamma: float = 0.95,
        online_sampling: bool | None = None,
        max_episode_length: int | None = None,
    ) -> None:
        # Not SB3's own constructors: they allocate a full buffer and a dictionary per slot.
        _check_arguments(
            buffer_size, observation_space, n_sampled_goal, optimize_memory_usage, relabel, goal_gamma
        )
        _warn_of_old_arguments(online_sampling, max_episode_length)
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = False
        self.handle_timeout_termination = handle_timeout_termination
        self.copy_info_dict = copy_info_dict
        self.n_sampled_goal = n_sampled_goal
        self.her_ratio = 1 - 1.0 / (n_sampled_goal + 1)
        self.goal_selection_strategy = strategy_of(goal_selection_strategy)  # type: ignore[assignment]
        self.goal_mix = check_mix(DEFAULT_MIX if goal_mix is None else goal_mix)
        self.goal_gamma = goal_gamma
        if relabel == "sb3":
            relabel_done, keep_goal_independent_reward = "keep", False
        self.keep_goal_independent_reward = keep_goal_independent_reward
        self.done_rule = DoneRule(relabel_done, ends_on_success, success_reward)
        self.env = env
        self._reward = None if compute_reward is None else RewardFunction(compute_reward)
        self.rng = np.random.default_rng(np.random.randint(2**32, dtype=np.uint64) if seed is None else seed)
        self.storage = Storage(self.buffer_size, n_envs, observation_space, action_space)

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
        :param infos: one dictionary per environment.
        """
        ended = np.asarray(done, dtype=bool)
        terminated = ended
        if ended.any():
            next_obs = _raw_ends(next_obs, ended, infos)
            if self.handle_timeout_termination:
                cut = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
                terminated = ended & ~cut
        kept = infos if self.copy_info_dict else None
        self.storage.add(obs, next_obs, action, reward, terminated, ended, kept)
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

    # ------------------------------------------------------------------------------------------------ reading

    @property
    def n_transitions(self) -> int:
        """Transitions that can be sampled, over all environments."""
        return self.storage.count

    @property
    def nbytes(self) -> int:
        """Bytes of memory the stored transitions take."""
        return self.storage.nbytes

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> HerReplayBufferSamples:  # type: ignore[override]
        """Draw transitions, real ones first, then virtual ones, in SB3's fixed proportion.

        :param batch_size: transitions to draw, with replacement.
        :param env: normalises observations and rewards, which are stored raw.
        :return: tensors on the buffer's device.
        :raises RuntimeError: nothing is stored yet.
        """
        if self.storage.count == 0:
            raise RuntimeError("The replay buffer is empty: add at least one transition before sampling.")
        self._settle()
        rows = self.storage.rows_of(self.storage.draw(batch_size, self.rng))
        now, after = self.storage.take(rows), self.storage.take(rows + 1)
        goals = self.storage.goals(rows, now["_episode"])
        next_goals = self.storage.goals(rows + 1, now["_episode"])
        terminated = (now["_flags"] & TERMINATED).astype(bool)
        rewards, dones = now["_reward"].copy(), terminated.copy()
        virtual = slice(batch_size - int(self.her_ratio * batch_size), batch_size)
        if virtual.start < batch_size:
            self._relabel(virtual, rows, now, after, (goals, next_goals, rewards, dones))
        return self._tensors(now, after, goals, next_goals, rewards, dones, env)

    def _relabel(
        self,
        part: slice,
        rows: Indices,
        now: NDArray,
        after: NDArray,
        out: tuple[NDArray, NDArray, NDArray, NDArray],
    ) -> None:
        """Give the transitions of ``part`` new goals, with their rewards and dones, writing into ``out``."""
        goals, next_goals, rewards, dones = out
        goal_rows = self._goal_rows(rows[part], now["_episode"][part])
        new = self.storage.achieved(goal_rows)
        kept = goal_rows == KEEP
        if kept.any():
            new[kept] = next_goals[part][kept]
        infos = None if self.storage.infos is None else self.storage.infos[rows[part]]
        explained = self._compute_reward(after["achieved_goal"][part], new, infos)
        terminated, rest = dones[part], now["_rest"][part]
        old = now["_reward"][part] - rest
        failed = terminated & ~self.done_rule.success(old) if terminated.any() else terminated
        virtual_dones = self.done_rule.done(explained, terminated, failed)
        virtual_rewards = explained + rest if self.keep_goal_independent_reward else explained
        if kept.any():  # as collected, exactly
            new_goals = np.where(_columns(kept, new), goals[part], new)
            virtual_rewards = np.where(kept, rewards[part], virtual_rewards)
            virtual_dones = np.where(kept, terminated, virtual_dones)
            goals[part], next_goals[part] = new_goals, new
        else:
            goals[part] = next_goals[part] = new
        rewards[part], dones[part] = virtual_rewards, virtual_dones

    def _goal_rows(self, rows: Indices, episodes: NDArray) -> Indices:
        """Return the row whose achieved goal each virtual transition is given."""
        draw = Draw(
            row=rows,
            first=self.storage.first.take(episodes),
            last=self.storage.last.take(episodes),
            rng=self.rng,
            any_row=lambda count: self.storage.rows_of(self.storage.draw(count, self.rng)) + 1,
            gamma=self.goal_gamma,
            weights=self.goal_mix,
        )
        return STRATEGIES[self.goal_selection_strategy](draw)  # type: ignore[index]

    def _tensors(
        self,
        now: NDArray,
        after: NDArray,
        goals: NDArray,
        next_goals: NDArray,
        rewards: NDArray,
        dones: NDArray,
        env: VecNormalize | None,
    ) -> HerReplayBufferSamples:
        keys = self.storage.keys
        obs = {key: np.ascontiguousarray(now[key]) for key in keys} | {"desired_goal": goals}
        next_obs = {key: np.ascontiguousarray(after[key]) for key in keys} | {"desired_goal": next_goals}
        rewards = rewards.reshape(-1, 1)
        if env is not None:
            obs, next_obs = env.normalize_obs(obs), env.normalize_obs(next_obs)  # type: ignore[assignment]
            rewards = env.normalize_reward(rewards).astype(np.float32)
        return HerReplayBufferSamples(
            observations={key: self._tensor(value) for key, value in obs.items()},
            actions=self._tensor(np.ascontiguousarray(now["_action"])),
            next_observations={key: self._tensor(value) for key, value in next_obs.items()},
            dones=self._tensor(dones.astype(np.float32).reshape(-1, 1)),
            rewards=self._tensor(rewards),
        )

    def _tensor(self, array: NDArray) -> th.Tensor:
        """Return the array, which is the sample's own, as a tensor on the buffer's device."""
        return th.from_numpy(array).to(self.device)

    # ------------------------------------------------------------------------------------------------- reward

    def set_env(self, env: VecEnv) -> None:
        """Give a loaded buffer the environment whose ``compute_reward`` it calls.

        :raises ValueError: it has one already.
        """
        if self.env is not None:
            raise ValueError("Trying to set env of already initialized environment.")
        self.env = env

    def _compute_reward(self, achieved: NDArray, desired: NDArray, infos: NDArray | None) -> NDArray:
        if self._reward is None:
            if self.env is None:
                raise RuntimeError(
                    "HerReplayBuffer needs an environment for the rewards of virtual transitions: "
                    "pass env= or compute_reward=, or call set_env() after loading."
                )
            self._reward = RewardFunction.of(self.env)
        shape = self.storage.goal_shape
        return self._reward(
            achieved.reshape(len(achieved), *shape), desired, None if infos is None else list(infos)
        )

    def _settle(self) -> None:
        """Work out, for what was added since the last sample, the reward its own goal does not explain.

        Once a transition, in batches, so that a sample itself computes the rewards of the new goals only.
        """
        if self.her_ratio == 0 or not (
            self.keep_goal_independent_reward or self.done_rule.mode in ("auto", "success")
        ):
            return
        fresh = self.storage.unsettled()
        for start in range(0, len(fresh), CHUNK):
            self._settle_rows(fresh[start : start + CHUNK])

    def _settle_rows(self, rows: Indices) -> None:
        storage = self.storage
        now = storage.take(rows)
        achieved = storage.achieved(rows + 1)
        # The environment pays for the goal it shows after the step, which PointMaze may just have moved.
        desired = storage.goals(rows + 1, now["_episode"])
        infos = None if storage.infos is None else storage.infos[rows]
        explained = self._compute_reward(achieved, desired, infos)
        storage.rows["_rest"][rows] = goal_independent(now["_reward"], explained)
        if self.done_rule.learns:
            perfect = self._compute_reward(achieved, achieved, infos)
            self.done_rule.observe(explained, perfect, (now["_flags"] & TERMINATED).astype(bool))

    # ------------------------------------------------------------------------------------------------- pickle

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the environment, and a reward function that is bound to one."""
        state = self.__dict__.copy()
        del state["env"]
        if self._reward is None or self.env is not None or hasattr(self._reward.call, "__self__"):
            state["_reward"] = None
        return state


def _columns(mask: NDArray, like: NDArray) -> NDArray:
    return mask.reshape(len(mask), *[1] * (like.ndim - 1))


def _raw_ends(next_obs: Batch, ended: NDArray, infos: list[dict[str, Any]]) -> Batch:
    """Return the next observations with the final ones as the environment gave them."""
    for index in np.flatnonzero(ended):
        raw = infos[index].get("raw_terminal_observation")
        if raw is not None:
            next_obs = {key: np.array(value) for key, value in next_obs.items()}
            for key, value in next_obs.items():
                value[index] = np.reshape(raw[key], value[index].shape)
    return next_obs


def _check_arguments(
    buffer_size: int,
    observation_space: spaces.Space,
    n_sampled_goal: int,
    optimize_memory_usage: bool,
    relabel: str,
    goal_gamma: float,
) -> None:
    keys = set(observation_space.spaces) if isinstance(observation_space, spaces.Dict) else set()
    missing = {"achieved_goal", "desired_goal"} - keys
    if missing:
        raise ValueError(
            f"The observation space has no {' and no '.join(sorted(missing))}: not a goal environment."
        )
    if buffer_size < 1:
        raise ValueError(f"buffer_size={buffer_size} must be at least 1.")
    if n_sampled_goal < 0:
        raise ValueError(f"n_sampled_goal={n_sampled_goal} must be at least 0.")
    if optimize_memory_usage:
        raise ValueError("optimize_memory_usage is not needed: every observation is stored once as it is.")
    if relabel not in ("right", "sb3"):
        raise ValueError(f"relabel={relabel!r} is not one of right, sb3.")
    if not 0 < goal_gamma < 1:
        raise ValueError(f"goal_gamma={goal_gamma} must lie between 0 and 1.")


def _warn_of_old_arguments(online_sampling: bool | None, max_episode_length: int | None) -> None:
    if online_sampling is not None:
        warnings.warn(
            "online_sampling is not needed any more: goals are always drawn when a batch is sampled.",
            stacklevel=3,
        )
    if max_episode_length is not None:
        warnings.warn(
            "max_episode_length is not needed any more: episodes of any length are stored as they come.",
            stacklevel=3,
        )
