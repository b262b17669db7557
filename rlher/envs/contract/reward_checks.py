"""The part of the goal-env check that is about ``compute_reward`` and ``compute_terminated``."""

from collections import Counter
from collections.abc import Iterator
from typing import Literal

import gymnasium as gym
import numpy as np

from rlher.config.environment import EnvConfig
from rlher.envs.contract.finding import Finding
from rlher.envs.contract.random_rollout import Recording, reward_of
from rlher.envs.fault_guard import describe_error

ROWS = 200  # steps whose reward is computed again
BATCH = 5  # goals in the batch that vectorised functions are tried on
ROUNDING = 1e-5  # float32 goals give rewards that differ by this much


def agreement(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    """Compare what ``step`` paid with ``compute_reward`` of the same goals."""
    rows = np.unique(np.linspace(0, len(recording.rewards) - 1, ROWS).astype(int))
    achieved, desired, paid = recording.achieved[rows], recording.desired[rows], np.array(recording.rewards)[rows]
    infos = [recording.infos[row] for row in rows]
    computed = np.array([reward_of(env, *each) for each in zip(achieved, desired, infos, strict=True)])
    difference = paid - computed
    differs = np.abs(difference) > ROUNDING * np.maximum(1.0, np.abs(paid))
    if not differs.any():
        yield Finding("ok", "step pays what compute_reward computes")
        return
    part = _span(difference[differs])
    reason = _reason(cfg, recording, rows, differs)
    if reason is not None:
        level, when = reason
        yield Finding(
            level,
            f"step pays what compute_reward computes, and {part} more {when}; "
            "that part is kept when a goal is replaced",
        )
        return
    yield Finding(
        "error",
        f"step and compute_reward disagree on {differs.sum()} of {len(rows)} steps: {_pairs(paid, computed, differs)} "
        f"(a difference of {part}). Hindsight learns from compute_reward, the agent is paid by step: let step return "
        "compute_reward(achieved_goal, desired_goal, info). If the difference is the price of something that has "
        "nothing to do with the goal, such as an action's cost, set env.extra_reward=true.",
    )


def vectorised(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    """Compare ``compute_reward`` of a batch with that of its rows, one by one."""
    achieved, desired, infos = _batch(recording)
    singles = np.array([reward_of(env, *each) for each in zip(achieved, desired, infos, strict=True)])
    try:
        together = np.asarray(env.get_wrapper_attr("compute_reward")(achieved, desired, infos), dtype=np.float64)
    except Exception as error:
        problem = f"a batch of goals raises {describe_error(error.__cause__ or error)}"  # what the Guard met
    else:
        if together.shape != singles.shape:
            problem = f"a batch of {len(singles)} goals gives shape {together.shape} instead of {singles.shape}"
        elif not np.allclose(together, singles, rtol=1e-4, atol=1e-6):
            problem = f"a batch gives {_numbers(together)}, one by one the same goals give {_numbers(singles)}"
        else:
            yield Finding("ok", "compute_reward takes batches")
            return
    yield Finding(
        "warning",
        f"compute_reward is not vectorised: {problem}. It will be called row by row, which is slow. Reduce over the "
        "last axis only, as in np.linalg.norm(achieved_goal - desired_goal, axis=-1).",
    )


def declared(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    """Hold rewards against ``cfg.reward_range`` and ``cfg.success_reward``, and an achieved goal against the rest."""
    paid, desired = np.array(recording.rewards), recording.desired
    hit = reward_of(env, desired[0], desired[0], recording.infos[0])
    if cfg.reward_range is not None:
        low, high = (
            bound if bound is not None else sign
            for bound, sign in zip(cfg.reward_range, (-np.inf, np.inf), strict=True)
        )
        stray = [reward for reward in [*paid, hit] if not low - ROUNDING <= reward <= high + ROUNDING]
        if stray:
            yield Finding("error", f"a reward of {stray[0]:g} lies outside env.reward_range={cfg.reward_range}.")
    if cfg.success_reward is not None and hit < cfg.success_reward:
        yield Finding(
            "error",
            f"a goal achieved exactly earns {hit:g}, less than env.success_reward={cfg.success_reward:g}: "
            "no replaced goal would ever count as reached.",
        )
    missed = np.array([reward_of(env, goal, desired[0], recording.infos[0]) for goal in recording.achieved[:ROWS]])
    if hit < missed.max() - ROUNDING:
        yield Finding(
            "warning",
            f"compute_reward gives {hit:g} for a goal achieved exactly and {missed.max():g} for one that is missed: "
            "is its sign right?",
        )


def termination(cfg: EnvConfig, env: gym.Env, recording: Recording) -> Iterator[Finding]:
    """Compare ``compute_terminated``, where there is one, of a batch with that of its rows."""
    if not env.has_wrapper_attr("compute_terminated"):
        return
    compute_terminated = env.get_wrapper_attr("compute_terminated")
    achieved, desired, infos = _batch(recording)
    try:
        singles = np.array([bool(compute_terminated(*each)) for each in zip(achieved, desired, infos, strict=True)])
    except Exception:  # an abstract method that nobody implemented
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
            "compute_terminated is not safe for batches: it gives other answers than one by one. Nothing here calls "
            "it with a batch; env.ends_on_success and env.success_reward decide instead.",
        )


def _reason(
    cfg: EnvConfig, recording: Recording, rows: np.ndarray, differs: np.ndarray
) -> tuple[Literal["ok", "warning"], str] | None:
    """Return what the difference comes with, and whether that is declared or a guess; None: nothing explains it."""
    if cfg.extra_reward:
        return "ok", "on some steps, as env.extra_reward=true declares"
    crashed = recording.said(cfg.crash_key)[rows]
    if (differs <= crashed).all():
        return "ok", f"on a crash (info[{cfg.crash_key!r}])"
    failed = np.array(recording.terminated)[rows] & ~recording.said(cfg.success_key)[rows]
    if cfg.success_key is not None and (differs <= failed).all():
        return "warning", "on steps that end an episode without success, which is taken for a penalty no goal explains"
    return None


def _batch(recording: Recording) -> tuple[np.ndarray, np.ndarray, list[dict]]:
    """Return pairs of seen goals in which hits and misses alternate, so that rows earn different rewards."""
    rows = np.unique(np.linspace(0, len(recording.rewards) - 1, BATCH).astype(int))
    achieved, desired = recording.achieved[rows], recording.desired[rows]
    achieved[::2] = desired[::2]
    return achieved, desired, [recording.infos[row] for row in rows]


def _pairs(paid: np.ndarray, computed: np.ndarray, differs: np.ndarray) -> str:
    """Say the commonest disagreements: ``"step paid -1 where compute_reward gives 0 (97 times)"``."""
    rounded = zip(paid[differs].round(3) + 0.0, computed[differs].round(3) + 0.0, strict=True)
    told = [
        f"{a:g} where {'compute_reward' if not i else 'it'} gives {b:g} ({n} times)"
        for i, ((a, b), n) in enumerate(Counter(rounded).most_common(3))
    ]
    return "step paid " + ", ".join(told)


def _span(values: np.ndarray) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.3g}" if np.isclose(low, high, atol=1e-4) else f"{low:.3g} to {high:.3g}"


def _numbers(values: np.ndarray) -> str:
    return np.array2string(values, precision=3, threshold=6)
