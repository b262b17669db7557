"""The tables of `rlher compare` and `rlher report`, following Agarwal et al. 2021 (arXiv:2108.13264).

Final success with its interval, steps to a success rate, success over several environments, probability of improvement
and performance profiles.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from rlher.analysis.grouping import Group, load_groups, number_of_seeds
from rlher.analysis.tables import MISSING, Cells, NumbersRow, Table
from rlher.config.commands import RunsConfig
from rlher.core import stats
from rlher.core.console import warn
from rlher.core.stats import MIN_SEEDS
from rlher.evaluation.metrics import METRICS_BY_NAME, STEPS_TO, SUCCESS_RATE, TARGET_PERCENT

PROFILE_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Success rates at which a performance profile is tabulated."""


def load_compared(config: RunsConfig) -> list[Group]:
    """Return the groups of runs that a config selects; warn about skipped runs and groups with too few seeds."""
    groups = load_groups(config.runs, config.logs, config.by)
    if note := few_seeds_message(groups):
        warn(note)
    return groups


def few_seeds_message(groups: Iterable[Group]) -> str:
    """Return a message that names the groups with too few seeds for an interval, empty if there are none."""
    few = [group.name for group in groups if len(group.runs) < MIN_SEEDS]
    return f"fewer than {MIN_SEEDS} seeds, so no interval, probability or profile for {'; '.join(few)}." if few else ""


def final_success_rates(group: Group) -> np.ndarray:
    """Return the final success rate of each run, (runs,)."""
    return np.array([run.final("success_rate") for run in group.runs])


def _wilson(groups: Sequence[Group]) -> tuple[float, float]:
    """Return the Wilson interval over all final episodes of some groups."""
    runs = [run for group in groups for run in group.runs]
    successes = sum(run.final("success_rate") * run.final_episodes for run in runs)
    return stats.wilson(round(successes), sum(run.final_episodes for run in runs))


def _percent(rate: float, low: float = np.nan, high: float = np.nan) -> str:
    """Return a rate in [0, 1] in per cent, with its interval if it has one; a dash if it is NaN."""
    interval = "" if np.isnan(low) else f" [{SUCCESS_RATE.format(low)}, {SUCCESS_RATE.format(high)}]"
    return MISSING if np.isnan(rate) else SUCCESS_RATE.format(rate) + interval


# ------------------------------------------------------------------------------------- final success of each agent


def summary(groups: Sequence[Group]) -> Table:
    """Return one row per group: final success rate and steps to reach a success rate.

    ``success_rate`` is the interquartile mean over seeds of the final evaluation, in [0, 1]; ``low`` and ``high`` are
    its 95 % bootstrap interval over seeds, widened to the Wilson interval of all episodes together, because three seeds
    at 100 of 100 episodes do not prove 100 %. Both are NaN with fewer than :data:`MIN_SEEDS` seeds. ``per_seed`` is the
    success rate per seed, ``crash_rate`` the mean. For each level of ``STEPS_TO``, such as 90, ``steps_to_90`` is the
    median over all seeds, with infinity for the ``never_90`` seeds that did not reach it. ``seconds_to_90`` is the
    median of their wall-clock time, compilation included. ``timesteps`` is the longest run.
    """
    envs = [group.env for group in groups]  # the agents of one environment below each other
    rows = [_summary_row(group) for group in sorted(groups, key=lambda group: envs.index(group.env))]
    return Table("", pd.DataFrame(rows), _summary_cells, "summary")


def _summary_row(group: Group) -> dict[str, object]:
    finals = final_success_rates(group)
    low, high = stats.bootstrap_interval([finals], stats.iqm, _wilson([group]))
    steps = {level: np.array([run.first_reaching(level / 100) for run in group.runs]) for level in STEPS_TO}
    return {
        "env": group.env,
        "agent": group.label,
        "seeds": len(finals),
        "success_rate": float(stats.iqm(finals)),
        "low": float(low),
        "high": float(high),
        "per_seed": finals.tolist(),
        "crash_rate": float(pd.Series([run.final("crash_rate") for run in group.runs]).mean()),
        **{f"steps_to_{level}": float(np.median(per_run)) for level, per_run in steps.items()},
        **{f"never_{level}": int(np.isinf(per_run).sum()) for level, per_run in steps.items()},
        f"seconds_to_{TARGET_PERCENT}": float(
            np.median([run.first_reaching(TARGET_PERCENT / 100, "wall_seconds") for run in group.runs])
        ),
        "timesteps": max(run.timesteps for run in group.runs),
    }


def _summary_cells(row: NumbersRow) -> Cells:
    seconds = row[f"seconds_to_{TARGET_PERCENT}"]
    return {
        "env": row["env"],
        "agent": row["agent"],
        "seeds": str(row["seeds"]),
        "final success": _percent(row["success_rate"], row["low"], row["high"]),
        "per seed": " / ".join(f"{100 * final:.0f}" for final in row["per_seed"]),
        METRICS_BY_NAME["crash_rate"].axis: _percent(row["crash_rate"]),
        **{f"steps to {level}%": _steps_to(row, level) for level in STEPS_TO},
        f"minutes to {TARGET_PERCENT}%": f"{seconds / 60:.1f}" if np.isfinite(seconds) else MISSING,
        "steps": f"{row['timesteps']:,}",
    }


def _steps_to(row: NumbersRow, level: int) -> str:
    median = row[f"steps_to_{level}"]
    never = row[f"never_{level}"]
    if np.isinf(median):
        return "never" if never == row["seeds"] else f"never in {never} of {row['seeds']}"
    return f"{median:,.0f}" + (f" ({never} of {row['seeds']} never)" if never else "")


def summary_by_environment(groups: Sequence[Group]) -> Table:
    """Return the final success rates of :func:`summary` as a paper shows them: environments by agents."""
    numbers = summary(groups).numbers
    rates = [_percent(row["success_rate"], row["low"], row["high"]) for row in numbers.to_dict("records")]
    cells = [rate.replace("%", "") for rate in rates]
    if numbers["seeds"].nunique() > 1:
        cells = [f"{cell}, n = {seeds}" for cell, seeds in zip(cells, numbers["seeds"], strict=True)]
    cells_by_env = numbers.assign(cell=cells).pivot(index="env", columns="agent", values="cell")
    in_order = cells_by_env.loc[numbers["env"].unique(), numbers["agent"].unique()]
    return Table(_caption(numbers["seeds"]), in_order.fillna(MISSING).reset_index(), dict, "summary")


def _caption(seeds: pd.Series) -> str:
    """Return a text that explains the cells of :func:`summary_by_environment`, by the number of seeds of each."""
    iqm = "interquartile mean (mean if n < 4)" if seeds.min() < 4 else "interquartile mean"
    mean = "mean" if seeds.max() < 4 else iqm
    text = f"Final success rate in per cent: {mean} over {number_of_seeds(seeds)}"
    if seeds.max() >= MIN_SEEDS:
        text += "; in brackets: 95 % interval, bootstrap over seeds, at least Wilson's over all episodes"
    return text


# ------------------------------------------------------------------------------------------- several environments


def over_environments(groups: Sequence[Group]) -> Table:
    """Return one row per agent with runs on several environments: its success over all of them.

    As rliable does, ``iqm`` is the interquartile mean and ``gap`` the optimality gap (1 minus the mean) of the final
    success rates of all runs. ``low``, ``high``, ``gap_low`` and ``gap_high`` are their 95 % intervals of a bootstrap
    stratified by environment, widened to the Wilson interval of all episodes; NaN if an environment has too few seeds.
    """
    by_agent: dict[str, list[Group]] = {}
    for group in groups:
        by_agent.setdefault(group.label, []).append(group)
    by_agent = {agent: tasks for agent, tasks in by_agent.items() if len({group.env for group in tasks}) > 1}
    if len({frozenset(group.env for group in tasks) for tasks in by_agent.values()}) > 1:
        warn("agents of different environments are aggregated; compare runs of the same environments.")
    numbers = pd.DataFrame([_over_environments_row(agent, tasks) for agent, tasks in by_agent.items()])
    title = "Final success rate over several environments, with 95 % intervals in brackets"
    return Table(title, numbers, _over_environments_cells, "environments")


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


def _over_environments_cells(row: NumbersRow) -> Cells:
    return {
        "agent": row["agent"],
        "environments": row["environments"],
        "runs": str(row["runs"]),
        "interquartile mean": _percent(row["iqm"], row["low"], row["high"]),
        "optimality gap": _percent(row["gap"], row["gap_low"], row["gap_high"]),
    }


# -------------------------------------------------------------------------------------- probability of improvement


def improvements(groups: Sequence[Group]) -> Table:
    """Return the probability of improvement for each pair of groups A, B of one environment with enough seeds.

    It is the probability that a run of A has a higher final success rate than a run of B, ties counting half. ``low``
    and ``high`` are its 95 % bootstrap interval, widened to :func:`rlher.core.stats.improvement_interval`.
    """
    rows = []
    for a, b in combinations(groups, 2):
        if a.env != b.env or min(len(a.runs), len(b.runs)) < MIN_SEEDS:
            continue
        x, y = final_success_rates(a), final_success_rates(b)
        probability = float(stats.probability_of_improvement(x, y))
        score_interval = stats.improvement_interval(probability, len(x), len(y))
        low, high = stats.bootstrap_interval([x, y], stats.probability_of_improvement, score_interval)
        rows.append((a.env, a.label, b.label, probability, float(low), float(high)))
    numbers = pd.DataFrame(rows, columns=["env", "A", "B", "probability", "low", "high"])
    title = "Probability that a run of A succeeds more often than one of B, with 95 % intervals in brackets"
    return Table(title, numbers, _improvement_cells, "improvement")


def _improvement_cells(row: NumbersRow) -> Cells:
    interval = f"{row['probability']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
    return {"env": row["env"], "A": row["A"], "B": row["B"], "probability": interval}


# --------------------------------------------------------------------------------------------- performance profiles


def performance_profiles(groups: Sequence[Group]) -> Table:
    """Return one row per group with enough seeds: the fraction of runs with a final success rate above each level."""
    rows = [
        (group.env, group.label, *stats.performance_profile(final_success_rates(group), PROFILE_LEVELS))
        for group in groups
        if len(group.runs) >= MIN_SEEDS
    ]
    numbers = pd.DataFrame(rows, columns=["env", "agent", *PROFILE_LEVELS])
    return Table("Performance profile: share of runs above each success rate", numbers, _profile_cells, "profiles")


def _profile_cells(row: NumbersRow) -> Cells:
    return {
        "env": row["env"],
        "agent": row["agent"],
        **{f"{level:.0%}": f"{row[level]:.0%}" for level in PROFILE_LEVELS},
    }


# ------------------------------------------------------------------------------------------------------ all tables


TABLES = {
    "summary": summary,
    "environments": over_environments,
    "improvement": improvements,
    "profiles": performance_profiles,
}
"""The tables of a comparison by name. Tables have no rows if no agent has enough seeds or environments."""


def tables_in_format(format: str | None) -> Mapping[str, Callable[[Sequence[Group]], Table]]:
    """Return :data:`TABLES` for a format; in LaTeX the summary has environments by agents, as a paper does."""
    return TABLES | {"summary": summary_by_environment} if format == "latex" else TABLES


def tables(groups: Sequence[Group], format: str = "text") -> list[Table]:
    """Return all tables that have rows.

    :param format: format in which they will be printed.
    """
    made = [make(groups) for make in tables_in_format(format).values()]
    return [table for table in made if len(table.numbers)]
