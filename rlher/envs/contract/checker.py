"""The contract check: whether an environment has the properties that HER relies on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.core.errors import EnvironmentFault, UserError
from rlher.envs.contract import reward_checks
from rlher.envs.contract.probe import (
    MAX_STEPS,
    SECONDS,
    Recording,
    ends_on_success,
    fill_from_recording,
    record_random_rollout,
)
from rlher.envs.contract.reward_checks import Finding
from rlher.envs.make import make_base_env, validate_goal_interface
from rlher.envs.success_info import FaultGuard

Check = Callable[[EnvConfig, gym.Env, Recording], Iterator[Finding]]


@dataclass
class CheckResult:
    """The result of the contract check.

    :param cfg: the config, its open properties filled in if the environment could be probed.
    :param findings: in the order of the checks; never empty.
    """

    cfg: EnvConfig
    observation_space: gym.Space
    action_space: gym.Space
    findings: list[Finding] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        """Return the findings that forbid training."""
        return [finding for finding in self.findings if finding.level == "error"]


def check_goal_env(cfg: EnvConfig, seed: int = 0, seconds: float = SECONDS) -> CheckResult:
    """Check an environment against the contract, including the properties that its config declares.

    :param seed: of the random episodes.
    :param seconds: time for the random episodes.
    :raises UserError: the environment does not exist, or cannot be made.
    :raises EnvironmentFault: its constructor raised.
    """
    env = make_base_env(cfg)
    guarded = FaultGuard(env, cfg.id)
    result = CheckResult(cfg, env.observation_space, env.action_space)
    try:
        result.findings += _named("interface", _interface(cfg, env))
        if not result.errors:
            recording = record_random_rollout(guarded, seed, seconds)
            result.cfg = fill_from_recording(cfg, env, recording)
            for name, check in CHECKS.items():
                result.findings += _named(name, check(result.cfg, guarded, recording))
    except EnvironmentFault as error:
        result.findings.append(Finding("error", str(error), "fault"))
    finally:
        guarded.close()
    return result


def validate_goal_env(cfg: EnvConfig, seconds: float = SECONDS) -> list[Finding]:
    """Return the findings of the contract check; raise the first error among them.

    :param seconds: time for the random episodes.
    :raises UserError: it violates the contract.
    :raises EnvironmentFault: it failed during the random episodes.
    """
    result = check_goal_env(cfg, seconds=seconds)
    for finding in result.errors:
        message = finding.message if cfg.id in finding.message else f"{cfg.id}: {finding.message}"
        raise (EnvironmentFault if finding.check == "fault" else UserError)(message)
    return result.findings


def _named(name: str, findings: Iterator[Finding]) -> list[Finding]:
    return [replace(finding, check=name) for finding in findings]


def _interface(cfg: EnvConfig, env: gym.Env) -> Iterator[Finding]:
    try:
        validate_goal_interface(env, cfg.id)
    except UserError as error:
        yield Finding("error", str(error))
        return
    yield Finding("ok", "observations have the three keys observation, achieved_goal and desired_goal")
    assert isinstance(env.observation_space, gym.spaces.Dict)  # validated above
    nested = [key for key, space in env.observation_space.spaces.items() if space.shape is None]
    if nested:
        yield Finding("error", f"{' and '.join(map(repr, nested))} must be arrays; flatten the nested spaces.")
        return
    achieved, desired = (env.observation_space[key].shape for key in ("achieved_goal", "desired_goal"))
    if achieved != desired:
        yield Finding("error", f"achieved_goal has shape {achieved}, desired_goal {desired}; give both the same shape.")
    actions = env.action_space
    if not isinstance(actions, gym.spaces.Box | gym.spaces.Discrete):
        yield Finding("error", f"the action space is {type(actions).__name__}; use Box or Discrete.")
    elif isinstance(actions, gym.spaces.Box) and not actions.is_bounded():
        yield Finding("error", f"the action space {actions} is unbounded; use finite bounds, best -1 and 1.")


def _observations(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    assert isinstance(env.observation_space, gym.spaces.Dict)  # validated with the interface
    all_inside = True
    for key, space in env.observation_space.spaces.items():
        values = [observation[key] for observation in recording.observations]
        outside = [value for value in values if not space.contains(np.asarray(value, dtype=space.dtype))]
        if outside:
            all_inside = False
            yield Finding(
                "warning",
                f"{key!r} is outside its declared {space} on {len(outside)} of {len(values)} steps, "
                f"for example {np.array2string(outside[0], precision=3, threshold=6)}.",
            )
        elif values[0].dtype != space.dtype:
            yield Finding("warning", f"{key!r} is declared as {space.dtype}, but has dtype {values[0].dtype}.")
    if all_inside:
        yield Finding("ok", "observations lie in their declared spaces")


def _success(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    if cfg.success_key is None:
        if cfg.success_reward is None:
            yield Finding(
                "error",
                f"success is undefined: `info` has {_keys(recording.infos[-1])}, and the reward is dense; "
                "put is_success into `info`, or set env.success_key or env.success_reward.",
            )
        else:
            yield Finding("ok", f"no success key; a reward of at least {cfg.success_reward:g} counts as success")
        return
    ends = [i for i, info in enumerate(recording.infos) if recording.terminated[i] or recording.truncated[i]]
    without = [i for i in ends or range(len(recording.infos)) if cfg.success_key not in recording.infos[i]]
    if without:
        keys = _keys(recording.infos[without[0]])
        yield Finding("error", f"env.success_key={cfg.success_key} is not in `info`, which has {keys}.")
        return
    yield Finding("ok", f"success is info[{cfg.success_key!r}]")
    recorded = ends_on_success(cfg, env, recording)
    if cfg.ends_on_success is None:
        yield Finding(
            "warning",
            "no random episode had a success, so it is unknown whether success ends an episode; "
            "set env.ends_on_success.",
        )
    elif recorded is not None and recorded != cfg.ends_on_success:
        actual = "ends" if recorded else "does not end"
        value = str(cfg.ends_on_success).lower()
        yield Finding("error", f"env.ends_on_success={value}, but success {actual} an episode.")


def _crash(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    if cfg.crash_key is not None and not any(cfg.crash_key in info for info in recording.infos):
        yield Finding(
            "warning", f"env.crash_key={cfg.crash_key} was never in `info`, which has {_keys(recording.infos[-1])}."
        )


def _keys(info: dict) -> str:
    return ", ".join(map(repr, info)) or "nothing"


def _time_limit(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    steps, lengths = len(recording.rewards), recording.truncated_lengths
    if cfg.max_episode_steps is not None:
        yield Finding("ok", f"episodes end after at most {cfg.max_episode_steps} steps")
    elif lengths:
        yield Finding(
            "warning",
            f"episodes were truncated after {min(lengths)} to {max(lengths)} steps; set env.max_episode_steps to the "
            "largest possible length.",
        )
    elif steps >= MAX_STEPS and not any(recording.terminated):
        yield Finding("error", f"no episode ended in {steps} random steps; set env.max_episode_steps.")
    else:
        yield Finding("warning", f"no episode was truncated in {steps} random steps; set env.max_episode_steps.")


def _seeding(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    starts = [env.reset(seed=seed)[0] for seed in (1, 1, 2)]
    if not all(np.array_equal(starts[0][key], starts[1][key]) for key in starts[0]):
        yield Finding("warning", "reset(seed) is not reproducible: evaluations cannot be repeated exactly.")
    elif all(np.array_equal(starts[0][key], starts[2][key]) for key in starts[0]):
        yield Finding("warning", "every seed resets to the same start and goal: there is only one task to learn.")
    else:
        yield Finding("ok", "reset(seed) is reproducible")


CHECKS: dict[str, Check] = {
    "observations": _observations,
    "success": _success,
    "crash": _crash,
    "time_limit": _time_limit,
    "reward_agreement": reward_checks.agreement,
    "reward_batches": reward_checks.batches,
    "reward_declarations": reward_checks.declarations,
    "termination_batches": reward_checks.termination_batches,
    "seeding": _seeding,
}
