"""Random episodes of an environment, and the properties they show that its config leaves open."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.core.errors import EnvironmentFault, as_fault
from rlher.envs.make import make_base_env, validate_goal_interface
from rlher.envs.success_info import SUCCESS_KEYS, FaultGuard, as_flag

MAX_STEPS = 1000
SECONDS = 0.5
SECONDS_WITHOUT_LIMIT = 5.0
"""Time to wait for the first truncation if the environment has no registered time limit."""

MIN_STEPS = 4
"""Further steps that are recorded after the first one, however slow the environment is."""

PAIRS = 40
"""Number of goal pairs whose rewards are computed."""

CRASH_KEYS = ("is_crash", "crashed")
PROBED = ("max_episode_steps", "success_key", "ends_on_success", "success_reward", "reward_range")
"""Properties that start the probing if null. A null crash key may mean that the environment has no crashes."""


@dataclass
class Recording:
    """Steps of random episodes, one entry per step in every list.

    Observations and rewards are those that ``step`` returned; ``steps_of_episode`` counts from 1.
    """

    observations: list[dict[str, np.ndarray]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: list[bool] = field(default_factory=list)
    truncated: list[bool] = field(default_factory=list)
    infos: list[dict[str, Any]] = field(default_factory=list)
    steps_of_episode: list[int] = field(default_factory=list)

    @property
    def achieved(self) -> np.ndarray:
        """Achieved goals, one row per step."""
        return np.stack([observation["achieved_goal"] for observation in self.observations])

    @property
    def desired(self) -> np.ndarray:
        """Desired goals, one row per step."""
        return np.stack([observation["desired_goal"] for observation in self.observations])

    @property
    def truncated_lengths(self) -> list[int]:
        """Lengths of the episodes that were truncated, in their order."""
        steps = zip(self.steps_of_episode, self.truncated, strict=True)
        return [length for length, truncated in steps if truncated]

    def info_flags(self, key: str | None) -> np.ndarray:
        """Return ``info[key]`` of each step as bool; False where it is missing.

        :raises EnvironmentFault: a value is neither true nor false.
        """
        return np.array([key is not None and as_flag(info.get(key), key) for info in self.infos], dtype=bool)


def record_random_rollout(env: gym.Env, seed: int = 0, seconds: float = SECONDS) -> Recording:
    """Record random actions for some time; up to 5 s if the time limit is unknown and not seen yet.

    :param seed: of the first reset and of the actions.
    """
    limit_known = env.spec is not None and env.spec.max_episode_steps is not None
    recording = Recording()
    env.action_space.seed(seed)
    env.reset(seed=seed)
    started = time.monotonic()
    length = 0
    for step in range(MAX_STEPS):
        limit = seconds if limit_known or any(recording.truncated) else SECONDS_WITHOUT_LIMIT
        if step > MIN_STEPS and time.monotonic() - started > limit:
            break
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        length += 1
        recording.observations.append({key: np.array(value) for key, value in observation.items()})
        recording.rewards.append(float(reward))
        recording.terminated.append(bool(terminated))
        recording.truncated.append(bool(truncated))
        recording.infos.append(dict(info))
        recording.steps_of_episode.append(length)
        if terminated or truncated:
            env.reset()
            length = 0
    return recording


def compute_single_reward(env: gym.Env, achieved: np.ndarray, desired: np.ndarray, info: Any) -> float:
    """Return the environment's ``compute_reward`` of one pair of goals.

    :raises EnvironmentFault: it raised, or is not one finite number.
    """
    try:
        reward = float(np.asarray(env.get_wrapper_attr("compute_reward")(achieved, desired, info)).reshape(()))
    except BaseException as error:
        raise as_fault(error, "compute_reward of one pair of goals") from error
    if not np.isfinite(reward):
        raise EnvironmentFault(f"compute_reward of one pair of goals returned {reward}.")
    return reward


def probe(cfg: EnvConfig) -> EnvConfig:
    """Return a copy of ``cfg`` in which properties that are null are filled in as far as random episodes show them.

    Properties that are set are never changed, and the environment is built only if one is null. These stay null: the
    success key if no usual one is in ``info``, ``success_reward`` if the reward is dense, ``ends_on_success`` if no
    success was seen and the environment has no ``compute_terminated``, and ``max_episode_steps`` if no episode was
    truncated or not all of them after equally many steps.

    :raises UserError: as :func:`rlher.envs.make.make_env`.
    :raises EnvironmentFault: it failed during the random episodes.
    """
    if all(getattr(cfg, name) is not None for name in PROBED):
        return replace(cfg, name=cfg.name or cfg.id)
    env = make_base_env(cfg)
    try:
        validate_goal_interface(env, cfg.id)
        return fill_from_recording(cfg, env, record_random_rollout(FaultGuard(env, cfg.id)))
    finally:
        env.close()


def fill_from_recording(cfg: EnvConfig, env: gym.Env, recording: Recording) -> EnvConfig:
    """Return a copy of ``cfg`` in which properties that are null are filled in from a recording of ``env``."""
    probed: dict[str, Any] = {
        "name": cfg.name or cfg.id,
        "actions": "discrete" if isinstance(env.action_space, gym.spaces.Discrete) else "continuous",
        "success_key": _first_key_in_info(SUCCESS_KEYS, recording),
        "crash_key": _first_key_in_info(CRASH_KEYS, recording),
        "max_episode_steps": _limit(env, recording),
    }
    best, rewards = _rewards(env, recording)
    probed["success_reward"] = best if len(rewards) == 2 and best == max(rewards) else None
    crash_costs = (cfg.crash_key or probed["crash_key"]) is not None
    probed["reward_range"] = None if cfg.extra_reward else _range(best, rewards, recording.rewards, crash_costs)
    missing = {name: value for name, value in probed.items() if getattr(cfg, name) in (None, "")}
    cfg = replace(cfg, **missing)
    if cfg.ends_on_success is None:
        cfg = replace(cfg, ends_on_success=ends_on_success(cfg, env, recording))
    return cfg


def _first_key_in_info(keys: tuple[str, ...], recording: Recording) -> str | None:
    return next((key for key in keys if any(key in info for info in recording.infos)), None)


def _limit(env: gym.Env, recording: Recording) -> int | None:
    """Return the registered limit, or the length of the truncated episodes if all have the same."""
    if env.spec is not None and env.spec.max_episode_steps is not None:
        return env.spec.max_episode_steps
    lengths = set(recording.truncated_lengths)
    return lengths.pop() if len(lengths) == 1 else None


def _rewards(env: gym.Env, recording: Recording) -> tuple[float, set[float]]:
    """Return the reward of an exactly achieved goal, and all rewards of pairs of recorded goals."""
    achieved, desired = recording.achieved, recording.desired
    goals = np.concatenate([achieved, desired])[:: max(1, len(achieved) // PAIRS)]
    exact = {compute_single_reward(env, goal, goal, {}) for goal in goals}
    steps = np.linspace(0, len(achieved) - 1, min(len(achieved), PAIRS)).astype(int)
    paid = {compute_single_reward(env, achieved[step], desired[step], recording.infos[step]) for step in steps}
    # Goals of other times, as hindsight will use them.
    others = {compute_single_reward(env, goal, other, {}) for goal, other in zip(goals, goals[::-1], strict=True)}
    return max(exact) + 0.0, {round(reward, 6) + 0.0 for reward in exact | paid | others}


def _range(best: float, rewards: set[float], paid: list[float], crash_costs: bool) -> list[float | None] | None:
    """Return bounds of a step's reward that follow from its kind, not only from the recorded values."""
    if len(rewards) == 2 and best == max(rewards) and min(rewards) <= min(paid) and max(paid) <= best:
        return [None if crash_costs else min(rewards), max(rewards)]
    if best == 0.0 and max(rewards) <= 0.0 and max(paid) <= 0.0:  # a negative distance, with or without penalties
        return [None, 0.0]
    return None


def ends_on_success(cfg: EnvConfig, env: gym.Env, recording: Recording) -> bool | None:
    """Return whether success terminates an episode, as recorded or as ``compute_terminated`` returns; None: unknown."""
    success = recording.info_flags(cfg.success_key)
    if cfg.success_key is None and cfg.success_reward is not None:
        success = np.array(recording.rewards) >= cfg.success_reward
    if success.any():
        return bool(np.array(recording.terminated)[success].all())
    if not env.has_wrapper_attr("compute_terminated"):
        return None
    goal = recording.desired[0]
    try:
        return bool(env.get_wrapper_attr("compute_terminated")(goal, goal, recording.infos[0]))
    except Exception:  # an abstract method without an implementation
        return None
