"""The tables of `rlher compare` and `rlher report`, following Agarwal et al. 2021 (arXiv:2108.13264).

The tables show final success with its interval, steps to a success rate, success over several environments, probability
of improvement, and performance profiles.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from rlher.analysis.grouping import Group, group_by, load_groups, mean_text, seeds_text
from rlher.analysis.tables import MISSING, Cell, Table
from rlher.config.command_configs import RunSelectionConfig
from rlher.core import stats
from rlher.core.console import warn
from rlher.core.stats import MIN_SEEDS
from rlher.evaluation.metrics import METRICS_BY_NAME, STEPS_TO, TARGET_PERCENT

PROFILE_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Success rates at which a performance profile is tabulated."""


def load_compared(config: RunSelectionConfig) -> list[Group]:
    """Return the groups of runs that a config selects. Warn about skipped runs and groups with too few seeds."""
    groups = load_groups(config)
    warn_of_few_seeds(groups)
    return groups


def warn_of_few_seeds(groups: Iterable[Group]) -> None:
    """Warn of groups with too few seeds for an interval."""
    if few := [group.name for group in groups if len(group.runs) < MIN_SEEDS]:
        warn(f"fewer than {MIN_SEEDS} seeds, so no interval, probability or profile for {'; '.join(few)}.")


def final_success_rates(group: Group) -> np.ndarray:
    """Return the final success rate of each run, (runs,)."""
    return np.array([run.final("success_rate") for run in group.runs])


def _wilson(groups: Sequence[Group]) -> tuple[float, float]:
    """Return the Wilson interval over all final episodes of some groups."""
    runs = [run for group in groups for run in group.runs]
    successes = sum(run.final("success_rate") * run.final_episodes for run in runs)
    return stats.wilson(round(successes), sum(run.final_episodes for run in runs))


def _success_cell(header: str, name: str, groups: Sequence[Group]) -> Cell:
    """Return the interquartile mean of the final success rates of all runs of some groups, with its interval."""
    samples = [final_success_rates(group) for group in groups]
    rate, low, high = _estimate(samples, stats.iqm, _wilson(groups))
    return Cell(header, _percent(rate, low, high), {name: rate, "low": low, "high": high})


def _estimate(
    samples: Sequence[np.ndarray], statistic: Callable[..., np.ndarray], widen_to: stats.Interval
) -> tuple[float, float, float]:
    """Return a statistic of final success rates and the two ends of its ``stats.bootstrap_interval``."""
    low, high = stats.bootstrap_interval(samples, statistic, widen_to)
    return float(statistic(*samples)), float(low), float(high)


def _percent(rate: float, low: float = np.nan, high: float = np.nan) -> str:
    """Return a rate in [0, 1] in per cent, with its interval if it has one. NaN becomes a dash."""
    interval = "" if np.isnan(low) else f" [{low:.1%}, {high:.1%}]"
    return MISSING if np.isnan(rate) else f"{rate:.1%}{interval}"


# ------------------------------------------------------------------------------------- final success of each group


def summary(groups: Sequence[Group]) -> Table:
    """Return one row per group, at least one: final success rate and steps to reach a success rate.

    ``success_rate`` is the interquartile mean over seeds of the final evaluation, in [0, 1]; ``low`` and ``high`` are
    its 95 % bootstrap interval over seeds, widened to the Wilson interval of all episodes together, because three seeds
    at 100 of 100 episodes do not prove 100 %. Both are NaN with fewer than :data:`MIN_SEEDS` seeds. ``per_seed`` is the
    success rate per seed, and ``crash_rate`` is the mean over seeds. For each level of ``STEPS_TO``, such as 90,
    ``steps_to_90`` is the median over all seeds of the steps until 90 %. Seeds that did not reach 90 % count as
    infinity, and ``never_90`` is their number. ``seconds_to_90`` is the median of the wall-clock time, including
    compilation. ``timesteps`` is the length of the longest run.
    """
    envs = [group.env for group in groups]  # lists the groups of one environment one below the other
    in_order = sorted(groups, key=lambda group: envs.index(group.env))
    table = Table("", [_summary_row(group) for group in in_order], "summary")
    return replace(table, latex_layout=_by_environment(table.numbers))


def _summary_row(group: Group) -> list[Cell]:
    finals = final_success_rates(group)
    crash_rate = float(pd.Series([run.final("crash_rate") for run in group.runs]).mean())
    seconds = float(np.median([run.first_reaching(TARGET_PERCENT / 100, "wall_seconds") for run in group.runs]))
    minutes = f"{seconds / 60:.1f}" if np.isfinite(seconds) else MISSING
    timesteps = max(run.timesteps for run in group.runs)
    return [
        Cell("env", group.env),
        Cell("group", group.label),
        Cell("seeds", str(len(finals)), {"seeds": len(finals)}),
        _success_cell("final success", "success_rate", [group]),
        Cell("per seed", " / ".join(f"{100 * final:.0f}" for final in finals), {"per_seed": finals.tolist()}),
        Cell(METRICS_BY_NAME["crash_rate"].axis, _percent(crash_rate), {"crash_rate": crash_rate}),
        *(_steps_cell(group, level) for level in STEPS_TO),
        Cell(f"minutes to {TARGET_PERCENT}%", minutes, {f"seconds_to_{TARGET_PERCENT}": seconds}),
        Cell("steps", f"{timesteps:,}", {"timesteps": timesteps}),
    ]


def _steps_cell(group: Group, level: int) -> Cell:
    """Return the steps to a success rate in per cent, and how many of the seeds never reached it."""
    steps = np.array([run.first_reaching(level / 100) for run in group.runs])
    median = float(np.median(steps))
    never = int(np.isinf(steps).sum())
    if never == len(steps):
        text = "never"
    elif np.isinf(median):
        text = f"never in {never} of {len(steps)}"
    else:
        text = f"{median:,.0f}" + (f" ({never} of {len(steps)} never)" if never else "")
    return Cell(f"steps to {level}%", text, {f"steps_to_{level}": median, f"never_{level}": never})


def _by_environment(numbers: pd.DataFrame) -> Table:
    """Return the final success rates as a paper shows them: a row per environment and a column per group.

    :param numbers: the table of :func:`summary`.
    """
    seeds = numbers["seeds"]
    rates = numbers[["success_rate", "low", "high"]].to_numpy()
    texts = [_percent(*rate).replace("%", "") for rate in rates]
    if seeds.nunique() > 1:
        texts = [f"{text}, n = {count}" for text, count in zip(texts, seeds, strict=True)]
    texts_by_group = dict(zip(zip(numbers["env"], numbers["group"], strict=True), texts, strict=True))
    rows = []
    for env in numbers["env"].unique():
        success = [Cell(label, texts_by_group.get((env, label), MISSING)) for label in numbers["group"].unique()]
        rows.append([Cell("env", env), *success])
    title = f"Final success rate in per cent: {mean_text(seeds)} over {seeds_text(seeds)}"
    if seeds.max() >= MIN_SEEDS:
        title += "; in brackets: 95 % interval, bootstrap over seeds, at least Wilson's over all episodes"
    return Table(title, rows, "summary")


# ------------------------------------------------------------------------------------------- several environments


def over_environments(groups: Sequence[Group]) -> Table:
    """Return one row per label with runs on several environments: its success over all of them.

    As in rliable, ``iqm`` is the interquartile mean and ``gap`` the optimality gap (1 minus the mean) of the final
    success rates of all runs. ``low``, ``high``, ``gap_low`` and ``gap_high`` are the ends of their 95 % intervals from
    a bootstrap stratified by environment, widened to the Wilson interval of all episodes. They are NaN if an
    environment has too few seeds.
    """
    by_label = group_by(groups, lambda group: group.label)
    several = {label: tasks for label, tasks in by_label.items() if len({group.env for group in tasks}) > 1}
    if len({frozenset(group.env for group in tasks) for tasks in several.values()}) > 1:
        warn("groups of different environments are aggregated; compare runs of the same environments.")
    title = "Final success rate over several environments, with 95 % intervals in brackets"
    return Table(title, [_over_environments_row(label, tasks) for label, tasks in several.items()], "environments")


def _over_environments_row(label: str, tasks: Sequence[Group]) -> list[Cell]:
    finals = [final_success_rates(group) for group in tasks]
    runs = sum(map(len, finals))
    wilson_low, wilson_high = _wilson(tasks)
    gap, gap_low, gap_high = _estimate(finals, stats.optimality_gap, (1 - wilson_high, 1 - wilson_low))
    gap_numbers = {"gap": gap, "gap_low": gap_low, "gap_high": gap_high}
    return [
        Cell("group", label),
        Cell("environments", ", ".join(group.env for group in tasks)),
        Cell("runs", str(runs), {"runs": runs}),
        _success_cell("interquartile mean", "iqm", tasks),
        Cell("optimality gap", _percent(gap, gap_low, gap_high), gap_numbers),
    ]


# -------------------------------------------------------------------------------------- probability of improvement


def improvements(groups: Sequence[Group]) -> Table:
    """Return the probability of improvement for each pair of groups A, B of one environment with enough seeds.

    This is the probability that a run of A has a higher final success rate than a run of B. Ties count half. ``low``
    and ``high`` are the 95 % bootstrap interval, widened to :func:`rlher.core.stats.improvement_interval`.
    """
    with_interval = [group for group in groups if len(group.runs) >= MIN_SEEDS]
    rows = [_improvement_row(a, b) for a, b in combinations(with_interval, 2) if a.env == b.env]
    title = "Probability that a run of A succeeds more often than one of B, with 95 % intervals in brackets"
    return Table(title, rows, "improvement")


def _improvement_row(a: Group, b: Group) -> list[Cell]:
    x = final_success_rates(a)
    y = final_success_rates(b)
    statistic = stats.probability_of_improvement
    score_interval = stats.improvement_interval(float(statistic(x, y)), len(x), len(y))
    probability, low, high = _estimate([x, y], statistic, score_interval)
    text = f"{probability:.2f} [{low:.2f}, {high:.2f}]"
    return [
        Cell("env", a.env),
        Cell("A", a.label),
        Cell("B", b.label),
        Cell("probability", text, {"probability": probability, "low": low, "high": high}),
    ]


# --------------------------------------------------------------------------------------------- performance profiles


def performance_profiles(groups: Sequence[Group]) -> Table:
    """Return one row per group with enough seeds: the fraction of runs with a final success rate above each level."""
    rows = [_profile_row(group) for group in groups if len(group.runs) >= MIN_SEEDS]
    return Table("Performance profile: share of runs above each success rate", rows, "profiles")


def _profile_row(group: Group) -> list[Cell]:
    finals = final_success_rates(group)
    shares = {level: float((finals > level).mean()) for level in PROFILE_LEVELS}
    return [
        Cell("env", group.env),
        Cell("group", group.label),
        *(Cell(f"{level:.0%}", f"{share:.0%}", {level: share}) for level, share in shares.items()),
    ]


# ------------------------------------------------------------------------------------------------------ all tables


TABLES = {
    "summary": summary,
    "environments": over_environments,
    "improvement": improvements,
    "profiles": performance_profiles,
}
"""The tables of a comparison by name. Tables have no rows if no group has enough seeds or environments."""


def all_tables(groups: Sequence[Group]) -> list[Table]:
    """Return all tables that have rows. There must be at least one group."""
    made = [make(groups) for make in TABLES.values()]
    return [table for table in made if table.rows]
