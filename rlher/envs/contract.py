"""The contract check: whether an environment has the properties that HER relies on."""

import textwrap
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.config.overrides import override_text
from rlher.core.errors import RunError, UserError
from rlher.envs.checked_env import CheckedEnv
from rlher.envs.make import make_base_env, require_goal_interface
from rlher.envs.probe import MAX_RANDOM_STEPS, RandomRollout, probe_ends_on_success, with_probed_properties
from rlher.her.reward_and_done import REWARD_TOLERANCE, goal_independent_rewards, is_success_reward
from rlher.her.reward_function import NOT_VECTORISED, batch_problem

CHECKED_STEPS = 200
"""Number of steps whose reward is compared with ``compute_reward``."""

BATCH_SIZE = 5
"""Number of goals in the batch with which ``compute_reward`` is checked."""

PROPERTIES = (
    "max_episode_steps",
    "success_key",
    "ends_on_success",
    "success_reward",
    "reward_range",
    "crash_key",
    "goal_independent_reward",
)
"""Properties of an environment that its config declares or that are probed."""


MARKS = {"ok": "✓", "warning": "!", "error": "✗"}
"""Mark that is printed before a finding, by level."""


class Finding(NamedTuple):
    """A message of the contract check for the user.

    :param level: ``"ok"``; ``"warning"`` if training works, but may be slower or less reliable; ``"error"`` if rlher
        refuses to train.
    """

    level: Literal["ok", "warning", "error"]
    message: str


@dataclass
class CheckResult:
    """The result of the contract check.

    :param config: the config. If the environment could be probed, its null properties are filled in.
    :param spaces: the spaces of the observation's keys and of the actions, as text. Empty if the environment could not
        be constructed.
    :param findings: findings in the order of the checks; never empty.
    :param raised: the exception if the environment raised.
    """

    config: EnvConfig
    spaces: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    raised: RunError | None = None

    @property
    def errors(self) -> list[Finding]:
        """The findings of level ``"error"``."""
        return [finding for finding in self.findings if finding.level == "error"]

    def lines(self, width: int) -> list[str]:
        """Return the result as ``rlher check`` prints it.

        :param width: characters per line of a finding.
        """
        properties = {f"env.{name}": override_text(getattr(self.config, name)) for name in PROPERTIES}
        values = self.spaces | properties
        name_width = max(map(len, values))
        lines = [self.config.label, *(f"{name:<{name_width}}  {text}" for name, text in values.items()), ""]
        for finding in self.findings:
            lines.append(textwrap.fill(f"{MARKS[finding.level]} {finding.message}", width, subsequent_indent="  "))
        return [*lines, "", "training would be refused" if self.errors else "ready to train on"]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as ``rlher check --json`` prints it."""
        return {
            "env": self.config.id,
            "ok": not self.errors,
            "properties": {name: getattr(self.config, name) for name in PROPERTIES},
            "spaces": self.spaces,
            "findings": [finding._asdict() for finding in self.findings],
        }


def check_goal_env(config: EnvConfig, seed: int = 0) -> CheckResult:
    """Check an environment against the contract, including the properties that its config declares.

    An environment that raises, in its constructor or later, is a finding of level ``"error"``.

    :param seed: seed of the random episodes.
    :raises UserError: the environment does not exist, or cannot be made.
    """
    result = CheckResult(config)
    try:
        with closing(CheckedEnv(make_base_env(config), config.id)) as env:
            spaces = getattr(env.observation_space, "spaces", {"observation": env.observation_space})
            result.spaces = {name: str(space) for name, space in {**spaces, "action": env.action_space}.items()}
            result.findings += _check_interface(config, env)
            if not result.errors:
                rollout = RandomRollout(env, seed)
                result.config = with_probed_properties(config, rollout)
                for check in CHECKS:
                    result.findings += check(result.config, rollout)
    except RunError as error:
        result.raised = error
        result.findings.append(Finding("error", str(error)))
    return result


def check_or_raise(config: EnvConfig) -> CheckResult:
    """Check an environment as :func:`check_goal_env` does, and raise the first error that it finds.

    :raises UserError: the environment does not exist, cannot be made, or violates the contract.
    :raises RunError: the environment raised in its constructor or during the random episodes.
    """
    result = check_goal_env(config)
    if result.raised:
        raise result.raised
    if result.errors:
        message = result.errors[0].message
        raise UserError(message if config.id in message else f"{config.id}: {message}")
    return result


def _check_interface(config: EnvConfig, env: gym.Env) -> Iterator[Finding]:
    try:
        require_goal_interface(env, config.id)
    except UserError as error:
        yield Finding("error", str(error))
        return
    yield Finding("ok", "observations have the three keys observation, achieved_goal and desired_goal")
    shapes = {key: space.shape for key, space in env.observation_space.spaces.items()}  # type: ignore[attr-defined]
    if nested := [key for key, shape in shapes.items() if shape is None]:
        yield Finding("error", f"{' and '.join(map(repr, nested))} must be arrays; flatten the nested spaces.")
        return
    achieved, desired = shapes["achieved_goal"], shapes["desired_goal"]
    if achieved != desired:
        yield Finding("error", f"achieved_goal has shape {achieved}, desired_goal {desired}; give both the same shape.")
    actions = env.action_space
    if not isinstance(actions, gym.spaces.Box | gym.spaces.Discrete):
        yield Finding("error", f"the action space is {type(actions).__name__}; use Box or Discrete.")
    elif isinstance(actions, gym.spaces.Box) and not actions.is_bounded():
        yield Finding("error", f"the action space {actions} is unbounded; use finite bounds, best -1 and 1.")


# ------------------------------------------------------------------------- checks of what random episodes show


def _check_observations(config: EnvConfig, rollout: RandomRollout) -> Iterator[Finding]:
    findings = []
    for key, space in rollout.env.observation_space.spaces.items():  # type: ignore[attr-defined]
        values = [np.asarray(observation[key], dtype=space.dtype) for observation in rollout.observations]
        if outside := [value for value in values if not space.contains(value)]:
            example = np.array2string(outside[0], precision=3, threshold=6)
            count_text = f"on {len(outside)} of {len(values)} steps, for example {example}"
            findings.append(Finding("warning", f"{key!r} is outside its declared {space} {count_text}."))
    yield from findings or [Finding("ok", "observations lie in their declared spaces")]


def _check_success(config: EnvConfig, rollout: RandomRollout) -> Iterator[Finding]:
    key = config.success_key
    infos = [rollout.infos[step] for step in rollout.ends] or rollout.infos
    without = [info for info in infos if key not in info]
    if key is None and config.success_reward is None:
        yield Finding(
            "error",
            f"success is undefined: `info` has {_keys(rollout.infos[-1])}, and the reward is dense; put is_success "
            "into `info`, or set env.success_key or env.success_reward.",
        )
    elif key is not None and without:
        yield Finding("error", f"env.success_key={key} is not in `info`, which has {_keys(without[0])}.")
    else:
        reward_text = f"a reward of at least {config.success_reward}, as there is no success key"
        success_text = reward_text if key is None else f"info[{key!r}]"
        yield Finding("ok", f"success is {success_text}")
        yield from _check_ends_on_success(config, rollout)


def _check_ends_on_success(config: EnvConfig, rollout: RandomRollout) -> Iterator[Finding]:
    recorded = probe_ends_on_success(config, rollout)
    if config.ends_on_success is None:
        yield Finding(
            "warning",
            "no random episode had a success, so training finds out whether success ends an episode; "
            "set env.ends_on_success.",
        )
    elif recorded is not None and recorded != config.ends_on_success:
        declared = str(config.ends_on_success).lower()
        actual = "ends" if recorded else "does not end"
        yield Finding("error", f"env.ends_on_success={declared}, but success {actual} an episode.")


def _check_time_limit(config: EnvConfig, rollout: RandomRollout) -> Iterator[Finding]:
    steps = len(rollout.rewards)
    if config.max_episode_steps is not None:
        yield Finding("ok", f"episodes end after at most {config.max_episode_steps} steps")
    elif steps >= MAX_RANDOM_STEPS and not rollout.ends.size:
        yield Finding("error", f"no episode ended in {steps} random steps; set env.max_episode_steps.")
    else:
        yield Finding("warning", f"the time limit is unknown after {steps} random steps; set env.max_episode_steps.")


def _check_reward_agreement(config: EnvConfig, rollout: RandomRollout) -> Iterator[Finding]:
    """Compare the rewards that ``step`` returned with ``compute_reward`` on the same goals."""
    steps = rollout.spread_steps(CHECKED_STEPS)
    step_rewards = rollout.rewards[steps]
    infos = [rollout.infos[step] for step in steps]
    computed = rollout.rewards_of(rollout.achieved[steps], rollout.desired[steps], infos)
    differs = goal_independent_rewards(step_rewards, computed) != 0
    is_crash = rollout.info_flags(config.crash_key)[steps]
    is_failure = (rollout.terminated & ~rollout.info_flags(config.success_key))[steps]
    if not differs.any():
        constant = "" if np.ptp(step_rewards) else f", which was {step_rewards[0]:g} in all of them"
        yield Finding("ok", f"{len(steps)} steps returned the reward of compute_reward{constant}")
    elif config.goal_independent_reward:
        yield Finding("ok", "some steps return another reward than compute_reward, as env.goal_independent_reward says")
    elif is_crash[differs].all():
        yield Finding("ok", f"only a crash (info[{config.crash_key!r}]) returns another reward than compute_reward")
    elif config.success_key is not None and is_failure[differs].all():
        yield Finding(
            "warning",
            "only steps that end an episode without success return another reward than compute_reward; it is taken as "
            "a penalty that does not depend on the goal",
        )
    else:
        example = np.argmax(differs)
        yield Finding(
            "error",
            f"step and compute_reward disagree on {differs.sum()} of {len(steps)} steps, for example "
            f"{step_rewards[example]:g} and {computed[example]:g}; return compute_reward(achieved_goal, desired_goal, "
            "info) from step, because HER uses it for virtual goals. If the difference does not depend on the goal, "
            "such as an action's cost, set env.goal_independent_reward=true.",
        )


def _check_reward_batches(config: EnvConfig, rollout: RandomRollout) -> Iterator[Finding]:
    """Compare ``compute_reward`` on a batch with ``compute_reward`` on each of its rows."""
    steps = rollout.spread_steps(BATCH_SIZE)
    achieved, desired = rollout.achieved[steps], rollout.desired[steps]
    achieved[::2] = desired[::2]  # in every second pair, the goal is reached
    problem = batch_problem(rollout.env.compute_reward, achieved, desired)
    if problem is None:
        yield Finding("ok", "compute_reward takes batches")
    else:
        yield Finding("warning", NOT_VECTORISED.format(problem))


def _check_reward_declarations(config: EnvConfig, rollout: RandomRollout) -> Iterator[Finding]:
    """Check rewards against the declared range and success reward; compare rewards of achieved and missed goals."""
    desired = rollout.desired[0]
    tried = np.concatenate([desired[None], rollout.achieved[:CHECKED_STEPS]])
    exact, *missed = rollout.rewards_of(tried, [desired] * len(tried), [{}] * len(tried))
    if config.reward_range is not None:
        low, high = np.array(config.reward_range, dtype=float)  # NaN where unknown: no reward is outside of it
        rewards = np.append(rollout.rewards, exact)
        outside = rewards[(rewards < low - REWARD_TOLERANCE) | (rewards > high + REWARD_TOLERANCE)]
        if outside.size:
            yield Finding("error", f"a reward of {outside[0]:g} lies outside env.reward_range={config.reward_range}.")
    if config.success_reward is not None and not is_success_reward(exact, config.success_reward):
        yield Finding(
            "error",
            f"an exactly achieved goal has reward {exact:g}, less than env.success_reward={config.success_reward:g}: "
            "no virtual goal would count as reached; lower it.",
        )
    if exact < max(missed) - REWARD_TOLERANCE:
        yield Finding(
            "warning",
            f"compute_reward gives {exact:g} for an exactly achieved goal and {max(missed):g} for a missed one; "
            "check its sign.",
        )


def _check_seeding(config: EnvConfig, rollout: RandomRollout) -> Iterator[Finding]:
    first, repeated, other = (deepcopy(rollout.env.reset(seed=seed)[0]) for seed in (1, 1, 2))
    if not all(np.array_equal(first[key], repeated[key]) for key in first):
        yield Finding("warning", "reset(seed) is not reproducible: evaluations cannot be repeated exactly.")
    elif all(np.array_equal(first[key], other[key]) for key in first):
        yield Finding("warning", "every seed resets to the same start and goal: there is only one task to learn.")
    else:
        yield Finding("ok", "reset(seed) is reproducible")


def _keys(info: dict) -> str:
    return ", ".join(map(repr, info)) or "nothing"


CHECKS = (
    _check_observations,
    _check_success,
    _check_time_limit,
    _check_reward_agreement,
    _check_reward_batches,
    _check_reward_declarations,
    _check_seeding,
)
