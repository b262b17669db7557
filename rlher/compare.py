"""`rlher compare`: what can be said of several agents from the runs there are, in tables."""

import sys
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from rlher import curves, stats
from rlher.config import CompareConfig
from rlher.curves import Curve, Group

ENOUGH = 3
"""Runs from which on something is claimed; even then intervals are wide."""
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


def compare(config: CompareConfig) -> int:
    """Print a summary, the probabilities of improvement and the performance profiles, a table each.

    Several folders are compared as they are; one, or none, is taken apart into groups as `rlher plot` does.

    :raises UserError: no runs.
    """
    groups, notes = _arms(config)
    for line in notes:
        print(f"rlher: {line}", file=sys.stderr)
    few = [f"{group.env}, {group.label}" for group in groups if len(group.curves) < ENOUGH]
    if few:
        print(f"rlher: fewer than {ENOUGH} seeds, so no claim can be made about {'; '.join(few)}.", file=sys.stderr)
    tables = {
        "": summary(groups),
        "Probability that a run of the one has a higher final success rate than a run of the other": better(groups),
        "Share of runs whose final success rate is above": profiles(groups),
    }
    print("\n\n".join(_printed(title, table, config.format) for title, table in tables.items() if len(table)))
    return 0


def _arms(config: CompareConfig) -> tuple[list[Group], list[str]]:
    if len(config.runs) < 2 or config.by:
        found, passed = curves.read(config.runs, config.logs)
        groups, notes = curves.group(found, config.by)
        return groups, passed + notes
    groups, notes = [], []
    for place, label in zip(config.runs, _labels(config.runs), strict=True):
        found, passed = curves.read([place], config.logs)
        notes += passed
        for env in dict.fromkeys(curve.env for curve in found):
            groups.append(Group(env, label, [curve for curve in found if curve.env == env]))
    return groups, notes


def _labels(places: Sequence[str]) -> list[str]:
    """Name folders by their last part, and by their whole path where that is not enough."""
    short = [Path(place).resolve().name for place in places]
    return short if len(set(short)) == len(short) else list(places)


def summary(groups: Iterable[Group]) -> pd.DataFrame:
    """Return a row a group: final success rate and how soon it was reached.

    The success rate is the interquartile mean over seeds of the final evaluation. Its 95 % interval is that of a
    bootstrap over seeds, widened to the Wilson interval of all episodes together: three seeds at 100 of 100 episodes
    are no proof of perfection. Steps are medians over all seeds, those that never got there counted as infinity.
    """
    rows = []
    for group in groups:
        finals = finals_of(group)
        crashes = [curve.final("crash_rate") for curve in group.curves if "crash_rate" in curve.rows]
        rows.append(
            {
                "env": group.env,
                "agent": group.label,
                "seeds": len(finals),
                "final success": _rate_and_interval(group),
                "of each seed": " / ".join(f"{100 * final:.0f}" for final in finals),
                "crashed": _percent(float(np.nanmean(crashes))) if np.isfinite(crashes).any() else "–",
                "50 % at": _steps(group.curves, 0.5),
                "90 % at": _steps(group.curves, 0.9),
                "steps": _thousands(max(curve.rows["timesteps"].max() for curve in group.curves)),
            }
        )
    return pd.DataFrame(rows)


def better(groups: Sequence[Group]) -> pd.DataFrame:
    """Return, for each two groups of one environment with enough seeds, who beats whom how surely."""
    rows = []
    for one, other in combinations(groups, 2):
        if one.env != other.env or min(len(one.curves), len(other.curves)) < ENOUGH:
            continue
        pair = [finals_of(one), finals_of(other)]
        low, high = stats.interval(pair, stats.improvement) or (0.0, 1.0)
        rows.append(
            {
                "env": one.env,
                "the one": one.label,
                "the other": other.label,
                "probability": f"{float(stats.improvement(*pair)):.2f} [{float(low):.2f}, {float(high):.2f}]",
            }
        )
    return pd.DataFrame(rows)


def profiles(groups: Iterable[Group]) -> pd.DataFrame:
    """Return a row a group with enough seeds: the share of its runs above each of some success rates."""
    rows = []
    for group in groups:
        if len(group.curves) >= ENOUGH:
            shares = stats.profile(finals_of(group), LEVELS)
            cells = {f"{level:.0%}": f"{share:.0%}" for level, share in zip(LEVELS, shares, strict=True)}
            rows.append({"env": group.env, "agent": group.label, **cells})
    return pd.DataFrame(rows)


def finals_of(group: Group) -> np.ndarray:
    """Return the final success rate of each run, (runs,)."""
    return np.array([curve.final("success_rate") for curve in group.curves])


def _rate_and_interval(group: Group) -> str:
    finals = finals_of(group)
    rate = float(stats.iqm(finals))
    if len(finals) < ENOUGH:
        return _percent(rate)
    low, high = stats.interval([finals]) or (rate, rate)
    episodes = np.array([curve.final_episodes for curve in group.curves])
    least, most = stats.wilson(round(float(finals @ episodes)), int(episodes.sum()))
    return f"{_percent(rate)} [{_percent(min(least, float(low)))}, {_percent(max(most, float(high)))}]"


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %"


def _steps(group: Sequence[Curve], level: float) -> str:
    """Return the median over seeds of the steps to a success rate; a seed that never got there counts as infinity."""
    steps = [curves.steps_to(curve, level) for curve in group]
    middle, never = float(np.median(steps)), sum(map(np.isinf, steps))
    return ("never" if np.isinf(middle) else _thousands(middle)) + (
        f" ({never} of {len(steps)} never)" if never else ""
    )


def _thousands(steps: float) -> str:
    return f"{steps:,.0f}"


def _printed(title: str, table: pd.DataFrame, form: str) -> str:
    if form == "csv":
        return table.to_csv(index=False).rstrip()
    if form == "latex":
        return table.to_latex(index=False, escape=True, caption=title or None).rstrip()
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [list(table), *table.to_numpy().tolist()]]
    return "\n".join([*([f"{title}:", ""] if title else []), lines[0], "|" + "--|" * len(table.columns), *lines[1:]])
