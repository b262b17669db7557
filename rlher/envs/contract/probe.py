"""Finding out what nobody has said about an environment, by playing it at random for half a second."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.envs.contract.random_rollout import Recording, play, reward_of
from rlher.envs.fault_guard import Guard
from rlher.envs.make import make_bare, require_goal_interface
from rlher.envs.success_info import SUCCESS_KEYS

PAIRS = 40  # pairs of goals whose rewards are looked at
CRASH_KEYS = ("is_crash", "crashed")
# One of these unknown is worth playing for. (No crash key may simply mean that nothing can crash.)
PROBED = ("max_episode_steps", "success_key", "ends_on_success", "success_reward", "reward_range")


def describe(cfg: EnvConfig) -> EnvConfig:
    """Return a copy of ``cfg`` in which what was null is filled in, as far as random play tells.

    What is given is never overwritten, and where nothing is null nothing is built. What stays null: a
    success key where no usual one is in ``info``, ``success_reward`` where the reward is dense,
    ``ends_on_success`` where no success was seen and the environment has no ``compute_terminated``, and an
    episode's limit where none was reached.

    :raises UserError: as :func:`rlher.envs.make.make_env`.
    :raises EnvironmentFault: it broke down in play.
    """
    if all(getattr(cfg, name) is not None for name in PROBED):
        return replace(cfg, name=cfg.name or cfg.id)
    env = make_bare(cfg)
    try:
        require_goal_interface(env, cfg.id)
        return fill(cfg, env, play(Guard(env, cfg.id)))
    finally:
        env.close()


def fill(cfg: EnvConfig, env: gym.Env, recording: Recording) -> EnvConfig:
    """Return a copy of ``cfg`` in which what was null is filled in from a recording of ``env``."""
    found: dict[str, Any] = {
        "name": cfg.name or cfg.id,
        "actions": "discrete" if isinstance(env.action_space, gym.spaces.Discrete) else "continuous",
        "success_key": _first_said(SUCCESS_KEYS, recording),
        "crash_key": _first_said(CRASH_KEYS, recording),
        "max_episode_steps": _limit(env, recording),
    }
    hit, rewards = _rewards(env, recording)
    found["success_reward"] = hit if len(rewards) == 2 and hit == max(rewards) else None
    crash_costs = (cfg.crash_key or found["crash_key"]) is not None
    found["reward_range"] = None if cfg.extra_reward else _range(hit, rewards, recording.rewards, crash_costs)
    known = {name: value for name, value in found.items() if getattr(cfg, name) in (None, "")}
    cfg = replace(cfg, **known)
    if cfg.ends_on_success is None:
        cfg = replace(cfg, ends_on_success=ends_on_success(cfg, env, recording))
    return cfg


def _first_said(keys: tuple[str, ...], recording: Recording) -> str | None:
    return next((key for key in keys if any(key in info for info in recording.infos)), None)


def _limit(env: gym.Env, recording: Recording) -> int | None:
    """Return the registered limit, else the length of the truncated episodes where all were equally long."""
    if env.spec is not None and env.spec.max_episode_steps is not None:
        return env.spec.max_episode_steps
    steps = zip(recording.steps_of_episode, recording.truncated, strict=True)
    lengths = {length for length, truncated in steps if truncated}
    return lengths.pop() if len(lengths) == 1 else None


def _rewards(env: gym.Env, recording: Recording) -> tuple[float, set[float]]:
    """Return the reward of a goal that is achieved exactly, and all rewards that pairs of seen goals earn."""
    achieved, desired = recording.achieved, recording.desired
    goals = np.concatenate([achieved, desired])[:: max(1, len(achieved) // PAIRS)]
    hits = {reward_of(env, goal, goal, {}) for goal in goals}
    steps = np.linspace(0, len(achieved) - 1, min(len(achieved), PAIRS)).astype(int)
    paid = {reward_of(env, achieved[step], desired[step], recording.infos[step]) for step in steps}
    # Goals seen at other times are the ones that hindsight will put in.
    others = {reward_of(env, goal, other, {}) for goal, other in zip(goals, goals[::-1], strict=True)}
    return max(hits) + 0.0, {round(reward, 6) + 0.0 for reward in hits | paid | others}


def _range(hit: float, rewards: set[float], paid: list[float], crash_costs: bool) -> list[float | None] | None:
    """Return bounds of a step's reward that the kind of reward vouches for, not merely what was seen."""
    if len(rewards) == 2 and hit == max(rewards) and min(rewards) <= min(paid) and max(paid) <= hit:
        return [None if crash_costs else min(rewards), max(rewards)]
    if hit == 0.0 and max(rewards) <= 0.0 and max(paid) <= 0.0:  # a distance, or a distance and penalties
        return [None, 0.0]
    return None


def ends_on_success(cfg: EnvConfig, env: gym.Env, recording: Recording) -> bool | None:
    """Return whether success terminates an episode: as seen, else as ``compute_terminated`` says; None: unknown."""
    success = recording.said(cfg.success_key)
    if cfg.success_key is None and cfg.success_reward is not None:
        success = np.array(recording.rewards) >= cfg.success_reward
    if success.any():
        return bool(np.array(recording.terminated)[success].all())
    if not env.has_wrapper_attr("compute_terminated"):
        return None
    goal = recording.desired[0]
    try:
        return bool(env.get_wrapper_attr("compute_terminated")(goal, goal, recording.infos[0]))
    except Exception:  # an abstract method that nobody implemented
        return None
