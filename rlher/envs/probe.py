"""Random episodes of an environment, which fill in the properties that are null in its config."""

import time
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.core.errors import RunError
from rlher.envs.checked_env import CheckedEnv
from rlher.envs.episode_info import SUCCESS_KEYS, as_bool
from rlher.her.reward_and_done import REWARD_TOLERANCE, RewardStatistics, is_success_reward

RANDOM_STEPS = 200
"""Number of steps of the random episodes; they take 0.1 to 0.4 s."""

MAX_RANDOM_STEPS = 1000
"""Number of steps if the environment has no registered time limit, until :data:`EQUAL_EPISODES` show the limit."""

EQUAL_EPISODES = 10
"""Number of truncated episodes of one length that show a time limit. Fewer may have other reasons."""

MAX_SECONDS = 5.0
"""Time limit for very slow environments. If it is reached, the probed properties depend on the machine."""

MIN_STEPS = 5
"""Least number of recorded steps, however slow the environment is."""

GOAL_PAIRS = 40
"""Number of goal pairs whose rewards are computed."""

CRASH_KEYS = ("is_crash", "crashed")


class RandomRollout:
    """Random episodes, which the constructor plays.

    The number of steps depends on the environment alone, so that the probed properties do not depend on the machine.

    :param env: environment to play.
    :param seed: seed of the first reset and of the actions.
    :ivar registered_time_limit: time limit with which the environment was registered or made, None without a limit.
    :ivar achieved: (steps, …) achieved goals after each step; ``desired`` holds the desired goals.
    :ivar rewards: (steps,) rewards; ``terminated`` and ``truncated`` have the same shape.
    :ivar truncated_lengths: lengths of the truncated episodes.
    :ivar ends: indices of the last steps of episodes.
    :raises RunError: the environment failed.
    """

    def __init__(self, env: CheckedEnv, seed: int) -> None:
        self.env = env
        self.registered_time_limit = env.spec.max_episode_steps if env.spec else None
        self.observations: list[dict[str, np.ndarray]] = []
        self.infos: list[dict[str, Any]] = []
        self.truncated_lengths: list[int] = []
        results: list[tuple[float, bool, bool]] = []
        env.action_space.seed(seed)
        env.reset(seed=seed)
        started, episode_start = time.monotonic(), 0
        while len(results) < (RANDOM_STEPS if self._shows_time_limit else MAX_RANDOM_STEPS):
            if len(results) >= MIN_STEPS and time.monotonic() - started > MAX_SECONDS:
                break
            observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
            self.observations.append({key: np.array(value) for key, value in observation.items()})
            self.infos.append(dict(info))
            results.append((reward, terminated, truncated))
            if truncated:
                self.truncated_lengths.append(len(results) - episode_start)
            if terminated or truncated:
                episode_start = len(results)
                env.reset()
        self.rewards, self.terminated, self.truncated = map(np.array, zip(*results, strict=True))
        self.ends = np.flatnonzero(self.terminated | self.truncated)
        self.achieved = np.stack([observation["achieved_goal"] for observation in self.observations])
        self.desired = np.stack([observation["desired_goal"] for observation in self.observations])

    @property
    def _shows_time_limit(self) -> bool:
        lengths = self.truncated_lengths
        return self.registered_time_limit is not None or (len(lengths) >= EQUAL_EPISODES and len(set(lengths)) == 1)

    def spread_steps(self, count: int) -> np.ndarray:
        """Return the indices of at most ``count`` steps, evenly spread."""
        return np.unique(np.linspace(0, len(self.rewards) - 1, count).astype(int))

    def info_flags(self, key: str | None) -> np.ndarray:
        """Return ``info[key]`` of each step as bool; False where it is missing.

        :raises RunError: a value is neither true nor false.
        """
        flags = [key is not None and as_bool(info.get(key), key, self.env.name) for info in self.infos]
        return np.array(flags, dtype=bool)

    def rewards_of(self, achieved: Any, desired: Any, infos: Any) -> np.ndarray:
        """Return the environment's ``compute_reward`` of each pair of goals, (pairs,).

        :raises RunError: ``compute_reward`` raised, or did not return one finite number.
        """
        rewards = [self.env.compute_reward(*pair) for pair in zip(achieved, desired, infos, strict=True)]
        if any(np.size(reward) != 1 for reward in rewards):
            raise RunError(f"{self.env.name}: compute_reward of one pair of goals returned {rewards[0]!r}.")
        return np.array([float(np.reshape(reward, ())) for reward in rewards])


def with_probed_properties(config: EnvConfig, rollout: RandomRollout) -> EnvConfig:
    """Return a copy of ``config`` in which null properties are filled in from random steps.

    These properties stay null:

    - the success and the crash key, if ``info`` has none of the usual keys;
    - ``success_reward``, if the reward is dense;
    - ``ends_on_success``, if no step was a success and the environment has no ``compute_terminated``;
    - ``max_episode_steps``, if no episode was truncated, or if truncated episodes had different lengths.
    """
    crash_key = _first_key_in_info(CRASH_KEYS, rollout)
    rewards, success_reward = _rewards_of_goal_pairs(rollout)
    crash_costs = (config.crash_key or crash_key) is not None
    probed: dict[str, Any] = {
        "name": config.id,
        "actions": "discrete" if isinstance(rollout.env.action_space, gym.spaces.Discrete) else "continuous",
        "success_key": _first_key_in_info(SUCCESS_KEYS, rollout),
        "crash_key": crash_key,
        "max_episode_steps": _probe_time_limit(rollout),
        "success_reward": success_reward,
    }
    if not config.goal_independent_reward:
        probed["reward_range"] = _reward_range(rewards, success_reward is not None, rollout.rewards, crash_costs)
    config = replace(config, **{name: value for name, value in probed.items() if getattr(config, name) in (None, "")})
    if config.ends_on_success is None:
        config = replace(config, ends_on_success=probe_ends_on_success(config, rollout))
    return config


def _first_key_in_info(keys: tuple[str, ...], rollout: RandomRollout) -> str | None:
    return next((key for key in keys if any(key in info for info in rollout.infos)), None)


def _probe_time_limit(rollout: RandomRollout) -> int | None:
    """Return the registered limit, or the length of the truncated episodes if all have the same length."""
    if rollout.registered_time_limit is not None:
        return rollout.registered_time_limit
    lengths = set(rollout.truncated_lengths)
    return lengths.pop() if len(lengths) == 1 else None


def _rewards_of_goal_pairs(rollout: RandomRollout) -> tuple[np.ndarray, float | None]:
    """Return the rewards of pairs of recorded goals, both equal and different, and the reward of success.

    The reward of success is None if rewards are not sparse.
    """
    steps = rollout.spread_steps(GOAL_PAIRS)
    goals = np.concatenate([rollout.achieved[steps], rollout.desired[steps]])
    no_infos: list[dict] = [{}] * len(goals)
    # Pair each goal with itself and, as hindsight does, with a goal of another step. `+ 0.0` turns -0.0 into 0.0.
    at_goal = rollout.rewards_of(goals, goals, no_infos).round(6) + 0.0
    others = rollout.rewards_of(goals, goals[::-1], no_infos).round(6) + 0.0
    statistics = RewardStatistics()
    statistics.record_reward_at_goal(at_goal)
    statistics.record_rewards(others)
    return np.concatenate([at_goal, others]), statistics.inferred_success_reward


def _reward_range(
    rewards: np.ndarray, is_sparse: bool, step_rewards: np.ndarray, crash_costs: bool
) -> list[float | None] | None:
    """Return bounds of a step's reward if the recorded rewards show its kind: sparse, or never above 0.

    :param rewards: rewards of pairs of goals.
    :param step_rewards: (steps,) recorded rewards. They may have a part that does not depend on the goal.
    :param crash_costs: whether a crash may lower the reward.
    :return: lowest and highest reward, each None if unknown. None if the kind of reward is unknown.
    """
    low, high = float(rewards.min()), float(rewards.max())
    if is_sparse and low - REWARD_TOLERANCE <= step_rewards.min() and step_rewards.max() <= high + REWARD_TOLERANCE:
        return [None if crash_costs else low, high]
    if high == 0.0 and step_rewards.max() <= 0.0:  # such as a negative distance, or sparse with penalties
        return [None, 0.0]
    return None


def probe_ends_on_success(config: EnvConfig, rollout: RandomRollout) -> bool | None:
    """Return whether success terminates an episode, None if this is unknown.

    The recorded steps decide if some were a success, otherwise the environment's ``compute_terminated``.
    """
    success = rollout.info_flags(config.success_key)
    if config.success_key is None and config.success_reward is not None:
        success = is_success_reward(rollout.rewards, config.success_reward)
    if success.any():
        return bool(rollout.terminated[success].mean() > 0.5)
    goal = rollout.desired[0]
    try:
        return bool(rollout.env.get_wrapper_attr("compute_terminated")(goal, goal, rollout.infos[0]))
    except Exception:  # there is no such method, or an abstract one without an implementation
        return None
