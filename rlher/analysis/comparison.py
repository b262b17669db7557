"""The numbers and columns of `rlher compare` and `rlher report`, following Agarwal et al. 2021 (arXiv:2108.13264).

Final success with its interval, steps to a success rate, success over several environments, probability of improvement
and performance profiles.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
import scipy

from rlher.analysis.grouping import Group, load_groups
from rlher.analysis.tables import MISSING, Columns, Table
from rlher.config.commands import CurvesConfig
from rlher.core import stats
from rlher.core.console import warn
from rlher.core.stats import MIN_SEEDS
from rlher.evaluation.metrics import BY_NAME, STEPS_TO, SUCCESS_RATE

PROFILE_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Success rates at which a performance profile is tabulated."""


def load(config: CurvesConfig) -> list[Group]:
    """Return the groups of runs that a config selects; warn about skipped runs and groups with too few seeds."""
    groups = load_groups(config.runs, config.logs, config.by)
    if note := few_seeds(groups):
        warn(note)
    return groups


def few_seeds(groups: Iterable[Group]) -> str:
    """Return a message that names the groups with too few seeds for an interval, empty if there are none."""
    few = [group.name for group in groups if len(group.runs) < MIN_SEEDS]
    return f"fewer than {MIN_SEEDS} seeds, so no interval for {'; '.join(few)}." if few else ""


def summary(groups: Iterable[Group]) -> pd.DataFrame:
    """Return one row per group: final success rate and steps to reach a success rate.

    ``success_rate`` is the interquartile mean over seeds of the final evaluation, in [0, 1]; ``low`` and ``high`` are
    its 95 % bootstrap interval over seeds, widened to the Wilson interval of all episodes together, because three seeds
    at 100 of 100 episodes do not prove 100 %. Both are NaN with fewer than :data:`MIN_SEEDS` seeds. ``each`` is the
    success rate per seed, ``crash_rate`` the mean. For each level of ``STEPS_TO``, such as 90, ``steps_to_90`` is the
    median over all seeds, with infinity for the ``never_90`` seeds that did not reach it. ``timesteps`` is the longest
    run.
    """
    return pd.DataFrame([_summary_row(group) for group in groups])


def _summary_row(group: Group) -> dict[str, object]:
    finals = final_success_rates(group)
    low, high = stats.bootstrap_interval([finals], stats.iqm, _wilson([group]))
    crashes = np.array([run.final("crash_rate") for run in group.runs])
    steps = {level: np.array([run.steps_to(level / 100) for run in group.runs]) for level in STEPS_TO}
    return {
        "env": group.env,
        "agent": group.label,
        "seeds": len(finals),
        "success_rate": float(stats.iqm(finals)),
        "low": float(low),
        "high": float(high),
        "each": finals.tolist(),
        "crash_rate": float(np.nanmean(crashes)) if np.isfinite(crashes).any() else np.nan,
        **{f"steps_to_{level}": float(np.median(each)) for level, each in steps.items()},
        **{f"never_{level}": int(np.isinf(each).sum()) for level, each in steps.items()},
        "timesteps": max(run.timesteps for run in group.runs),
    }


def _wilson(groups: Sequence[Group]) -> tuple[float, float]:
    """Return the Wilson interval over all final episodes of some groups."""
    runs = [run for group in groups for run in group.runs]
    successes = sum(run.final("success_rate") * run.final_episodes for run in runs)
    return stats.wilson(round(successes), sum(run.final_episodes for run in runs))


def over_environments(groups: Sequence[Group]) -> pd.DataFrame:
    """Return one row per agent with runs on several environments: its success over all of them.

    As rliable does, ``iqm`` is the interquartile mean and ``gap`` the optimality gap (1 minus the mean) of the final
    success rates of all runs. ``low``, ``high``, ``gap_low`` and ``gap_high`` are their 95 % intervals of a bootstrap
    stratified by environment, widened to the Wilson interval of all episodes; NaN if an environment has too few seeds.
    """
    rows = []
    for agent in dict.fromkeys(group.label for group in groups):
        tasks = [group for group in groups if group.label == agent]
        if len({group.env for group in tasks}) > 1:
            rows.append(_over_environments_row(agent, tasks))
    return pd.DataFrame(rows)


def _over_environments_row(agent: str, tasks: Sequence[Group]) -> dict[str, object]:
    finals = [final_success_rates(group) for group in tasks]
    wilson_low, wilson_high = _wilson(tasks)
    low, high = stats.bootstrap_interval(finals, stats.iqm, (wilson_low, wilson_high))
    gap_low, gap_high = stats.bootstrap_interval(finals, stats.optimality_gap, (1 - wilson_high, 1 - wilson_low))
    return {
        "agent": agent,
        "environments": ", ".join(group.env for group in tasks),
        "runs": sum(map(len, finals)),
        "iqm": float(stats.iqm(*finals)),
        "low": float(low),
        "high": float(high),
        "gap": float(stats.optimality_gap(*finals)),
        "gap_low": float(gap_low),
        "gap_high": float(gap_high),
    }


def improvements(groups: Sequence[Group]) -> pd.DataFrame:
    """Return the probability of improvement for each pair of groups A, B of one environment with enough seeds.

    It is the probability that a run of A has a higher final success rate than a run of B, ties counting half. ``low``
    and ``high`` are its 95 % bootstrap interval, widened to :func:`improvement_interval`.
    """
    rows = []
    for a, b in combinations(groups, 2):
        if a.env != b.env or min(len(a.runs), len(b.runs)) < MIN_SEEDS:
            continue
        x, y = final_success_rates(a), final_success_rates(b)
        probability = float(stats.probability_of_improvement(x, y))
        at_least = improvement_interval(probability, len(x), len(y))
        low, high = stats.bootstrap_interval([x, y], stats.probability_of_improvement, at_least)
        rows.append((a.env, a.label, b.label, probability, float(low), float(high)))
    return pd.DataFrame(rows, columns=["env", "A", "B", "probability", "low", "high"])


def improvement_interval(probability: float, m: int, n: int) -> tuple[float, float]:
    """Return the 95 % score interval of a probability of improvement, both ends in [0, 1].

    Method 5 of Newcombe 2006 (Statistics in Medicine 25(4), 559-573, doi:10.1002/sim.2324). As Wilson's interval does
    for a proportion, it takes the variance at the end of the interval, and so does not shrink to nothing at 0 and 1:
    three seeds that all beat three others give [0.50, 1.00].

    :param probability: Mann-Whitney statistic over ``m * n``.
    :param m: runs of A.
    :param n: runs of B.
    """
    z = scipy.stats.norm.ppf(0.975)
    extra = (m + n) / 2 - 1

    def excess(theta: float, estimate: float) -> float:
        variance = theta * (1 - theta) * (1 + extra * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / (m * n)
        return (estimate - theta) ** 2 - z**2 * variance

    def lower(estimate: float) -> float:
        if estimate <= 0:
            return 0.0
        return float(scipy.optimize.brentq(excess, 0, min(estimate, 1 - 1e-9), args=(estimate,)))

    return lower(probability), 1 - lower(1 - probability)  # the variance is symmetric around 0.5


def performance_profiles(groups: Iterable[Group], levels: Sequence[float] = PROFILE_LEVELS) -> pd.DataFrame:
    """Return one row per group with enough seeds: the fraction of runs with a final success rate above each level."""
    rows = [
        (group.env, group.label, *stats.performance_profile(final_success_rates(group), levels))
        for group in groups
        if len(group.runs) >= MIN_SEEDS
    ]
    return pd.DataFrame(rows, columns=["env", "agent", *levels])


def final_success_rates(group: Group) -> np.ndarray:
    """Return the final success rate of each run, (runs,)."""
    return np.array([run.final("success_rate") for run in group.runs])


# ----------------------------------------------------------------------------------------------------- columns


def percent(rate: float) -> str:
    """Return a rate in [0, 1] in per cent, NaN as a dash."""
    return MISSING if np.isnan(rate) else SUCCESS_RATE.format(rate)


def _with_interval(name: str, low: str = "low", high: str = "high") -> Callable[[Any], str]:
    """Return a function that formats a rate with its interval, if it has one."""

    def cell(row: Any) -> str:
        interval = "" if np.isnan(row[low]) else f" [{percent(row[low])}, {percent(row[high])}]"
        return percent(row[name]) + interval

    return cell


def _steps(level: int) -> Callable[[Any], str]:
    def cell(row: Any) -> str:
        median, never = row[f"steps_to_{level}"], row[f"never_{level}"]
        if never == row["seeds"]:
            return "never"
        if np.isinf(median):
            return f"never in {never} of {row['seeds']}"
        return f"{median:,.0f}" + (f" ({never} of {row['seeds']} never)" if never else "")

    return cell


def _fraction(level: float) -> Callable[[Any], str]:
    return lambda row: f"{row[level]:.0%}"


SUMMARY: Columns = {
    "env": itemgetter("env"),
    "agent": itemgetter("agent"),
    "seeds": lambda row: str(row["seeds"]),
    "final success": _with_interval("success_rate"),
    "per seed": lambda row: " / ".join(f"{100 * final:.0f}" for final in row["each"]),
    BY_NAME["crash_rate"].axis: lambda row: percent(row["crash_rate"]),
    **{f"steps to {level}%": _steps(level) for level in STEPS_TO},
    "steps": lambda row: f"{row['timesteps']:,}",
}
OVER_ENVIRONMENTS: Columns = {
    "agent": itemgetter("agent"),
    "environments": itemgetter("environments"),
    "runs": lambda row: str(row["runs"]),
    "interquartile mean": _with_interval("iqm"),
    "optimality gap": _with_interval("gap", "gap_low", "gap_high"),
}
IMPROVEMENTS: Columns = {
    "env": itemgetter("env"),
    "A": itemgetter("A"),
    "B": itemgetter("B"),
    "probability": lambda row: f"{row['probability']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
}
PROFILES: Columns = {
    "env": itemgetter("env"),
    "agent": itemgetter("agent"),
    **{f"{level:.0%}": _fraction(level) for level in PROFILE_LEVELS},
}

TABLES: dict[str, tuple[str, Callable[[Sequence[Group]], pd.DataFrame], Columns]] = {
    "summary": ("", summary, SUMMARY),
    "environments": ("Final success rate over several environments", over_environments, OVER_ENVIRONMENTS),
    "improvement": (
        "Probability that a run of A has a higher final success rate than a run of B",
        improvements,
        IMPROVEMENTS,
    ),
    "profiles": (
        "Performance profile: fraction of runs with a final success rate above",
        performance_profiles,
        PROFILES,
    ),
}
"""Title, numbers and columns of each table of a comparison."""


def table(name: str, groups: Sequence[Group], form: str = "text") -> Table:
    """Return a table of :data:`TABLES`; without rows if it needs more seeds or environments.

    :param form: format in which it will be printed. In LaTeX the summary has environments by agents, as a paper does.
    """
    title, numbers, columns = TABLES[name]
    found = Table(title, numbers(groups), columns)
    return _by_environment(found.numbers) if (name, form) == ("summary", "latex") else found


def tables(groups: Sequence[Group], form: str = "text") -> list[Table]:
    """Return all tables that have rows; parameters as in :func:`table`."""
    return [found for name in TABLES if len((found := table(name, groups, form)).numbers)]


def _by_environment(summary: pd.DataFrame) -> Table:
    """Return the final success rates as one table for a paper, environments by agents.

    :param summary: as :func:`summary` returns it.
    """
    cell = _with_interval("success_rate")
    numbers = summary.assign(cell=[cell(row).replace("%", "") for row in summary.to_dict("records")])
    table = numbers.pivot(index="env", columns="agent", values="cell")
    table = table.loc[numbers["env"].unique(), numbers["agent"].unique()].fillna(MISSING).reset_index()
    title = "Final success rate in per cent: interquartile mean over seeds, with its interval of 95 per cent"
    return Table(title, table, {str(name): itemgetter(name) for name in table})
