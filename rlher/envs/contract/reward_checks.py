"""A finding of the contract check, and the checks of ``compute_reward`` and ``compute_terminated``."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.core.errors import describe_error
from rlher.envs.contract.probe import Recording, compute_single_reward

ROWS = 200
"""Number of steps whose reward is computed again."""

BATCH_SIZE = 5
"""Number of goals in the batch that functions are called with."""

TOLERANCE = 1e-5
"""Allowed difference of rewards, for float32 goals."""

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """A message and its level.

    :param level: ``"ok"``; ``"warning"``: training works, but may be slower or less reliable; ``"error"``: training is
        refused.
    :param message: for the user.
    :param check: name of the check it comes from, a key of ``rlher.envs.contract.checker.CHECKS``, ``"interface"``, or
        ``"fault"``: the environment failed while it was checked.
    """

    level: Level
    message: str
    check: str = ""


def agreement(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    """Compare the rewards of ``step`` with ``compute_reward`` of the same goals."""
    rows = np.unique(np.linspace(0, len(recording.rewards) - 1, ROWS).astype(int))
    achieved, desired, paid = recording.achieved[rows], recording.desired[rows], np.array(recording.rewards)[rows]
    infos = [recording.infos[row] for row in rows]
    computed = np.array([compute_single_reward(env, *each) for each in zip(achieved, desired, infos, strict=True)])
    difference = paid - computed
    differs = np.abs(difference) > TOLERANCE * np.maximum(1.0, np.abs(paid))
    if not differs.any():
        constant = "" if np.ptp(paid) else f", which was {paid[0]:g} in all of them"
        yield Finding("ok", f"{len(rows)} steps returned the reward of compute_reward{constant}")
        return
    part = _span(difference[differs])
    explanation = _explanation(cfg, recording, rows, differs)
    if explanation is not None:
        level, when = explanation
        yield Finding(
            level,
            f"step returns the reward of compute_reward, and {part} more {when}; "
            "this part is kept when a goal is replaced",
        )
        return
    yield Finding(
        "error",
        f"step and compute_reward disagree on {differs.sum()} of {len(rows)} steps: {_pairs(paid, computed, differs)} "
        f"(a difference of {part}); return compute_reward(achieved_goal, desired_goal, info) from step, because "
        "hindsight uses it for replaced goals. If the difference does not depend on the goal, such as an action's "
        "cost, set env.extra_reward=true.",
    )


def batches(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    """Compare ``compute_reward`` of a batch with that of its rows."""
    achieved, desired, infos = _batch(recording)
    singles = np.array([compute_single_reward(env, *each) for each in zip(achieved, desired, infos, strict=True)])
    try:
        together = np.asarray(env.get_wrapper_attr("compute_reward")(achieved, desired, infos), dtype=np.float64)
    except Exception as error:  # the FaultGuard's, with the environment's as its cause
        problem = f"a batch of goals raises {describe_error(error.__cause__ or error)}"
    else:
        if together.shape != singles.shape:
            problem = f"a batch of {len(singles)} goals gives shape {together.shape} instead of {singles.shape}"
        elif not np.allclose(together, singles, rtol=1e-4, atol=1e-6):
            problem = f"a batch gives {_numbers(together)}, its rows alone give {_numbers(singles)}"
        else:
            yield Finding("ok", "compute_reward takes batches")
            return
    yield Finding(
        "warning",
        f"compute_reward is not vectorised: {problem}. It is called row by row, which is slow; reduce over the last "
        "axis only, as in np.linalg.norm(achieved_goal - desired_goal, axis=-1).",
    )


def declarations(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    """Compare rewards with ``cfg.reward_range`` and ``cfg.success_reward``, and achieved goals with missed ones."""
    paid, desired = np.array(recording.rewards), recording.desired
    exact = compute_single_reward(env, desired[0], desired[0], recording.infos[0])
    if cfg.reward_range is not None:
        low, high = (
            bound if bound is not None else sign
            for bound, sign in zip(cfg.reward_range, (-np.inf, np.inf), strict=True)
        )
        outside = [reward for reward in [*paid, exact] if not low - TOLERANCE <= reward <= high + TOLERANCE]
        if outside:
            yield Finding("error", f"a reward of {outside[0]:g} lies outside env.reward_range={cfg.reward_range}.")
    if cfg.success_reward is not None and exact < cfg.success_reward:
        yield Finding(
            "error",
            f"an exactly achieved goal has reward {exact:g}, less than env.success_reward={cfg.success_reward:g}: "
            "no replaced goal would count as reached; lower it.",
        )
    missed = np.array(
        [compute_single_reward(env, goal, desired[0], recording.infos[0]) for goal in recording.achieved[:ROWS]]
    )
    if exact < missed.max() - TOLERANCE:
        yield Finding(
            "warning",
            f"compute_reward gives {exact:g} for an exactly achieved goal and {missed.max():g} for a missed one; check "
            "its sign.",
        )


def termination_batches(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    """Compare ``compute_terminated`` of a batch with that of its rows, if the environment has it."""
    if not env.has_wrapper_attr("compute_terminated"):
        return
    compute_terminated = env.get_wrapper_attr("compute_terminated")
    achieved, desired, infos = _batch(recording)
    try:
        singles = np.array([bool(compute_terminated(*each)) for each in zip(achieved, desired, infos, strict=True)])
    except Exception:  # an abstract method without an implementation
        return
    try:
        safe = np.array_equal(np.broadcast_to(compute_terminated(achieved, desired, infos), singles.shape), singles)
    except Exception:
        safe = False
    if safe:
        yield Finding("ok", "compute_terminated takes batches")
    else:
        yield Finding(
            "warning",
            "compute_terminated does not take batches: its result differs from that of single goals. rlher does not "
            "use it in batches; env.ends_on_success and env.success_reward are used instead.",
        )


def _explanation(
    cfg: EnvConfig, recording: Recording, rows: np.ndarray, differs: np.ndarray
) -> tuple[Literal["ok", "warning"], str] | None:
    """Return the level and the cause of a difference between the rewards; None: it has no known cause."""
    if cfg.extra_reward:
        return "ok", "on some steps, as env.extra_reward=true declares"
    crashed = recording.info_flags(cfg.crash_key)[rows]
    if (differs <= crashed).all():
        return "ok", f"on a crash (info[{cfg.crash_key!r}])"
    failed = np.array(recording.terminated)[rows] & ~recording.info_flags(cfg.success_key)[rows]
    if cfg.success_key is not None and (differs <= failed).all():
        return (
            "warning",
            "on steps that end an episode without success, assumed to be a penalty that does not depend on the goal",
        )
    return None


def _batch(recording: Recording) -> tuple[np.ndarray, np.ndarray, list[dict]]:
    """Return pairs of recorded goals; in every second one the achieved goal equals the desired one."""
    rows = np.unique(np.linspace(0, len(recording.rewards) - 1, BATCH_SIZE).astype(int))
    achieved, desired = recording.achieved[rows], recording.desired[rows]
    achieved[::2] = desired[::2]
    return achieved, desired, [recording.infos[row] for row in rows]


def _pairs(paid: np.ndarray, computed: np.ndarray, differs: np.ndarray) -> str:
    """Return the most frequent differences: ``"step returns -1 where compute_reward gives 0 (97 times)"``."""
    rounded = zip(paid[differs].round(3) + 0.0, computed[differs].round(3) + 0.0, strict=True)
    pairs = [
        f"{a:g} where {'compute_reward' if not i else 'it'} gives {b:g} ({n} times)"
        for i, ((a, b), n) in enumerate(Counter(rounded).most_common(3))
    ]
    return "step returns " + ", ".join(pairs)


def _span(values: np.ndarray) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.3g}" if np.isclose(low, high, atol=1e-4) else f"{low:.3g} to {high:.3g}"


def _numbers(values: np.ndarray) -> str:
    return np.array2string(values, precision=3, threshold=6)
