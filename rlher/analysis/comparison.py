"""What can be said of several agents from the runs there are, in numbers."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from rlher.analysis import loading
from rlher.analysis.loading import Group
from rlher.core import stats
from rlher.core.errors import UserError

ENOUGH = 3
"""Runs from which on something is claimed; even then intervals are wide."""
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Success rates that a performance profile is told at."""


def arms(places: Sequence[str], logs: str, by: Sequence[str]) -> tuple[list[Group], list[str]]:
    """Read what is to be compared.

    Several folders of runs are compared as they are. One, or none, or runs named one by one, are taken apart into
    groups as `rlher plot` does.

    :return: the groups, and a sentence about each run that was passed over, left out or pooled.
    :raises UserError: a folder does not exist, there is no run in any, or none has a key of ``by``.
    """
    if by or len(places) < 2 or all((Path(place) / "config.yaml").exists() for place in places):
        found, passed = loading.read(places, logs)
        groups, notes = loading.group(found, by)
        return groups, passed + notes
    groups, notes = [], []
    for place, label in zip(places, _labels(places), strict=True):
        found, passed = loading.read_below(place)
        notes += passed or ([] if found else [f"{place}: no run in it"])
        found = loading.without_repeats(found, notes)
        for env in dict.fromkeys(curve.env for curve in found):
            groups.append(Group(env, label, [curve for curve in found if curve.env == env]))
            notes += loading.pooled(groups[-1])
    if not groups:
        raise UserError(f"there is no run with an evaluation under {', '.join(places)} ({'; '.join(notes)}).")
    return groups, notes


def _labels(places: Sequence[str]) -> list[str]:
    """Name folders by their last part, and by their whole path where that is not enough."""
    short = [Path(place).resolve().name for place in places]
    return short if len(set(short)) == len(short) else list(places)


def caveats(groups: Iterable[Group]) -> list[str]:
    """Say which groups have too few seeds for a claim: a sentence, or none."""
    few = [f"{group.env}, {group.label}" for group in groups if len(group.curves) < ENOUGH]
    return [f"fewer than {ENOUGH} seeds, so no claim can be made about {'; '.join(few)}."] if few else []


def summary(groups: Iterable[Group]) -> pd.DataFrame:
    """Return a row a group: final success rate and how soon it was reached.

    ``success_rate`` is the interquartile mean over seeds of the final evaluation, in [0, 1]. Its 95 % interval ``low``
    to ``high`` is that of a bootstrap over seeds, widened to the Wilson interval of all episodes together: three seeds
    at 100 of 100 episodes are no proof of perfection. With fewer than :data:`ENOUGH` seeds it is NaN. ``each`` is the
    seeds' own rates, ``crash_rate`` their mean. ``steps_to_50`` and ``steps_to_90`` are medians over all seeds, those
    that never got there, ``never_50`` and ``never_90`` of them, counted as infinity. ``timesteps`` is the longest run.
    """
    return pd.DataFrame([_row(group) for group in groups])


def _row(group: Group) -> dict[str, object]:
    finals = finals_of(group)
    low, high = _interval(group, finals) if len(finals) >= ENOUGH else (np.nan, np.nan)
    crashes = np.array([curve.final("crash_rate") for curve in group.curves])
    reached = {level: np.array([curve.steps_to(level / 100) for curve in group.curves]) for level in (50, 90)}
    return {
        "env": group.env,
        "agent": group.label,
        "seeds": len(finals),
        "success_rate": float(stats.iqm(finals)),
        "low": low,
        "high": high,
        "each": finals.tolist(),
        "crash_rate": float(np.nanmean(crashes)) if np.isfinite(crashes).any() else np.nan,
        **{f"steps_to_{level}": float(np.median(steps)) for level, steps in reached.items()},
        **{f"never_{level}": int(np.isinf(steps).sum()) for level, steps in reached.items()},
        "timesteps": int(max(curve.rows["timesteps"].max() for curve in group.curves)),
    }


def _interval(group: Group, finals: np.ndarray) -> tuple[float, float]:
    low, high = stats.bootstrap_interval([finals]) or (finals[0], finals[0])
    episodes = np.array([curve.final_episodes for curve in group.curves])
    least, most = stats.wilson(round(float(finals @ episodes)), int(episodes.sum()))
    return min(least, float(low)), max(most, float(high))


def better(groups: Sequence[Group]) -> pd.DataFrame:
    """Return, for each two groups of one environment with enough seeds, the probability that a run of the one has a
    higher final success rate than a run of the other, and its 95 % interval."""
    rows = []
    for one, other in combinations(groups, 2):
        if one.env != other.env or min(len(one.curves), len(other.curves)) < ENOUGH:
            continue
        pair = [finals_of(one), finals_of(other)]
        low, high = map(float, stats.bootstrap_interval(pair, stats.probability_of_improvement) or (0, 1))
        probability = float(stats.probability_of_improvement(*pair))
        rows.append((one.env, one.label, other.label, probability, low, high))
    return pd.DataFrame(rows, columns=["env", "one", "other", "probability", "low", "high"])


def profiles(groups: Iterable[Group], levels: Sequence[float] = LEVELS) -> pd.DataFrame:
    """Return a row a group with enough seeds: the share of its runs above each of some success rates."""
    rows = [
        (group.env, group.label, *stats.performance_profile(finals_of(group), levels))
        for group in groups
        if len(group.curves) >= ENOUGH
    ]
    return pd.DataFrame(rows, columns=["env", "agent", *levels])


def finals_of(group: Group) -> np.ndarray:
    """Return the final success rate of each run, (runs,)."""
    return np.array([curve.final("success_rate") for curve in group.curves])
