"""The goal-env check: does an environment keep the promises that hindsight builds on?"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.core.errors import EnvironmentFault, UserError
from rlher.envs.contract import reward_checks
from rlher.envs.contract.finding import Finding
from rlher.envs.contract.probe import ends_on_success, fill
from rlher.envs.contract.random_rollout import MAX_STEPS, Recording, play
from rlher.envs.fault_guard import Guard
from rlher.envs.make import make_bare, require_goal_interface

Check = Callable[[EnvConfig, gym.Env, Recording], Iterator[Finding]]


@dataclass
class Examination:
    """What the check found.

    :param cfg: the config, its open properties filled in where the environment could be played.
    :param findings: in the order of the checks.
    :param observation_space: of the environment.
    :param action_space: of the environment.
    """

    cfg: EnvConfig
    observation_space: gym.Space
    action_space: gym.Space
    findings: list[Finding] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        """Return the findings that forbid training."""
        return [finding for finding in self.findings if finding.level == "error"]


def check_goal_env(cfg: EnvConfig, seed: int = 0) -> list[Finding]:
    """Hold an environment against the contract of a goal environment.

    :param cfg: which environment, and what is said of it; what is said is checked too.
    :param seed: of the random play.
    :return: what is well, what is doubtful, and what forbids training; never empty.
    :raises UserError: there is no such environment, or it cannot be made.
    :raises EnvironmentFault: its constructor raised.
    """
    return examine(cfg, seed).findings


def require_goal_env(cfg: EnvConfig) -> list[Finding]:
    """Return the check's findings, or refuse an environment that fails it.

    :raises UserError: it is no sound goal environment.
    :raises EnvironmentFault: it broke down in play.
    """
    found = examine(cfg)
    for finding in found.errors:
        sentence = finding.sentence if cfg.id in finding.sentence else f"{cfg.id}: {finding.sentence}"
        raise (EnvironmentFault if finding.fault else UserError)(sentence)
    return found.findings


def examine(cfg: EnvConfig, seed: int = 0) -> Examination:
    """Do what :func:`check_goal_env` does, and keep the spaces and what was found out beside the findings."""
    env = make_bare(cfg)
    found = Examination(cfg, env.observation_space, env.action_space)
    try:
        found.findings += list(_interface(cfg, env))
        if not found.errors:
            guarded = Guard(env, cfg.id)
            recording = play(guarded, seed)
            found.cfg = fill(cfg, env, recording)
            for check in CHECKS:
                found.findings += list(check(found.cfg, guarded, recording))
    except EnvironmentFault as error:
        found.findings.append(Finding("error", str(error), fault=True))
    finally:
        env.close()
    return found


def _interface(cfg: EnvConfig, env: gym.Env) -> Iterator[Finding]:
    try:
        require_goal_interface(env, cfg.id)
    except UserError as error:
        yield Finding("error", str(error))
        return
    yield Finding("ok", "observations have the three keys observation, achieved_goal and desired_goal")
    assert isinstance(env.observation_space, gym.spaces.Dict)  # what was just checked
    nested = [key for key, space in env.observation_space.spaces.items() if space.shape is None]
    if nested:
        yield Finding("error", f"{' and '.join(map(repr, nested))} must be arrays: spaces inside the Dict cannot nest.")
        return
    achieved, desired = (env.observation_space[key].shape for key in ("achieved_goal", "desired_goal"))
    if achieved != desired:
        yield Finding("error", f"achieved goals have shape {achieved}, desired goals {desired}: they must agree.")
    actions = env.action_space
    if not isinstance(actions, gym.spaces.Box | gym.spaces.Discrete):
        yield Finding("error", f"actions are {type(actions).__name__}: the algorithms here take Box or Discrete.")
    elif isinstance(actions, gym.spaces.Box) and not actions.is_bounded():
        yield Finding("error", f"actions are unbounded ({actions}): give the Box finite bounds, best -1 and 1.")


def _observations(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    assert isinstance(env.observation_space, gym.spaces.Dict)  # checked with the interface
    strayed = False
    for key, space in env.observation_space.spaces.items():
        values = [observation[key] for observation in recording.observations]
        outside = [value for value in values if not space.contains(np.asarray(value, dtype=space.dtype))]
        if outside:
            strayed = True
            yield Finding(
                "warning",
                f"{key!r} left its declared {space} on {len(outside)} of {len(values)} steps, "
                f"for example {np.array2string(outside[0], precision=3, threshold=6)}.",
            )
        elif values[0].dtype != space.dtype:
            yield Finding("warning", f"{key!r} is declared {space.dtype} and comes as {values[0].dtype}.")
    if not strayed:
        yield Finding("ok", "observations lie in the space they are declared in")


def _success(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    if cfg.success_key is None:
        if cfg.success_reward is None:
            keys = ", ".join(map(repr, recording.infos[-1])) or "nothing"
            yield Finding(
                "error",
                f"nothing says whether an episode was a success: `info` has {keys}, and the reward is dense. "
                "Put is_success into `info`, or set env.success_key or env.success_reward.",
            )
        else:
            yield Finding("ok", f"no success key; a reward of at least {cfg.success_reward:g} counts as success")
        return
    ends = [i for i, info in enumerate(recording.infos) if recording.terminated[i] or recording.truncated[i]]
    silent = [i for i in ends or range(len(recording.infos)) if cfg.success_key not in recording.infos[i]]
    if silent:
        keys = ", ".join(map(repr, recording.infos[silent[0]])) or "nothing"
        yield Finding("error", f"env.success_key={cfg.success_key} is not in `info`, which has {keys}.")
        return
    yield Finding("ok", f"success is info[{cfg.success_key!r}]")
    seen = ends_on_success(cfg, env, recording)
    if cfg.ends_on_success is None:
        yield Finding(
            "warning",
            "whether success ends an episode is unknown, no random episode having had one; "
            "set env.ends_on_success if you know.",
        )
    elif seen is not None and seen != cfg.ends_on_success:
        which = "ends" if seen else "does not end"
        said = str(cfg.ends_on_success).lower()
        yield Finding("error", f"env.ends_on_success={said}, but success {which} an episode.")


def _crash(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    if cfg.crash_key is not None and not any(cfg.crash_key in info for info in recording.infos):
        keys = ", ".join(map(repr, recording.infos[-1])) or "nothing"
        yield Finding("warning", f"env.crash_key={cfg.crash_key} was never in `info`, which has {keys}.")


def _limit(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    if cfg.max_episode_steps is not None:
        yield Finding("ok", f"episodes end after at most {cfg.max_episode_steps} steps")
        return
    endless = len(recording.rewards) >= MAX_STEPS and not any(recording.terminated)
    yield Finding(
        "error" if endless else "warning",
        f"no episode reached a time limit in {len(recording.rewards)} random steps"
        f"{', nor ended otherwise' if endless else ''}: set env.max_episode_steps.",
    )


def _reproducible(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    starts = [env.reset(seed=seed)[0] for seed in (1, 1, 2)]
    if not all(np.array_equal(starts[0][key], starts[1][key]) for key in starts[0]):
        yield Finding("warning", "reset(seed) is not reproducible: evaluations cannot be repeated exactly.")
    elif all(np.array_equal(starts[0][key], starts[2][key]) for key in starts[0]):
        yield Finding("warning", "every seed resets to the same start and goal: there is only one task to learn.")
    else:
        yield Finding("ok", "reset(seed) is reproducible")


CHECKS: tuple[Check, ...] = (
    _observations,
    _success,
    _crash,
    _limit,
    reward_checks.agreement,
    reward_checks.vectorised,
    reward_checks.declared,
    reward_checks.termination,
    _reproducible,
)
