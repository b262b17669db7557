"""Write and print the results of a search: best.yaml (a recipe), verdict.json, trials.csv, plots and a table."""

import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import pyplot as plt
from optuna.study import Study
from optuna.visualization import matplotlib as optuna_plots

from rlher.config.conf_files import conf_files, read_env_config
from rlher.config.environment import EnvConfig
from rlher.config.key import param_values, values_by_key
from rlher.config.overrides import override_words
from rlher.config.training import RunConfig
from rlher.config.trust import sign
from rlher.config.tuning import NOT_IN_RECIPE, OBJECTIVES, OptimizeConfig
from rlher.core.console import escape_control, output_width, text_table
from rlher.core.matplotlib_settings import FIGURE_SETTINGS
from rlher.core.nested import from_dotted_keys
from rlher.core.reading import dump_yaml
from rlher.core.writing import atomic_write, write_json, write_text
from rlher.tuning.reruns import BASELINE, Candidate, format_gain, table_row
from rlher.tuning.scoring import SCORE_KEYS
from rlher.tuning.search import Search
from rlher.tuning.study_folder import RECIPE_FILE, TRIALS_FILE, VERDICT_FILE
from rlher.tuning.study_storage import BASELINE_ATTRIBUTE
from rlher.tuning.trials import FAILURE_REASON, completed_trials, counted_trials, rank_trials

plt.switch_backend("Agg")

STRATEGY = "her.goal_selection_strategy"
N_GOALS = "her.n_sampled_goal"


@dataclass(frozen=True)
class SearchResult:
    """The result of `rlher optimize`.

    :param folder: folder of the study.
    :param verdict: the object of ``verdict.json``: name of the study, number of trials by state, and candidates with
        their differences to the baseline, best first. There are no candidates if the re-runs failed.
    :param conclusion: one line that says whether the best candidate beats the baseline.
    :param train_command: command that trains with the values of the best candidate, or None if the best candidate is
        no better than the baseline.
    """

    folder: Path
    verdict: dict[str, Any]
    conclusion: str
    train_command: str | None

    def lines(self) -> list[str]:
        """Return the trials, the table of the candidates and the conclusion as lines of text."""
        trials = self.verdict["trials"]
        counts = ", ".join(f"{number} {state}" for state, number in trials.items())
        rows = [table_row(candidate) for candidate in self.verdict["candidates"]]
        cells = [list(row.values()) for row in rows]
        table = text_table(list(rows[0]), cells, output_width()).splitlines() if rows else []
        return [f"{sum(trials.values())} trials: {counts}", *table, self.conclusion, f"written to {self.folder}"]


def write_search_files(study: Study, search: Search) -> None:
    """Write the files of a search before its best trials are trained again.

    The recipe of an older comparison is kept until the next comparison.
    """
    _write_trials(study, search)
    _write_plots(study, search)
    ranked = rank_trials(study, search.space)
    if ranked and not (search.folder / VERDICT_FILE).exists():
        best = ranked[0]
        comment = f"Values of trial {best.number}, the best of the search; not yet compared with the baseline."
        _write_recipe(best.params, [comment], search)


def write_results(study: Study, candidates: list[Candidate], search: Search) -> SearchResult:
    """Write the recipe and the comparison with the baseline into the study's folder, and return the result.

    :param candidates: as :func:`rlher.tuning.reruns.compare_candidates` returns them.
    """
    states = Counter(trial.state.name.lower() for trial in counted_trials(study))
    verdict = {"study": study.study_name, "trials": states, "candidates": candidates}
    conclusion = _conclusion(candidates, search.config.objective)
    folder = search.folder
    if not candidates:
        return SearchResult(folder, verdict, conclusion, None)
    best = candidates[0]
    comments = [f"The best candidate: {best['name']}.", conclusion]
    _write_recipe(best["params"], comments, search)
    write_json(folder / VERDICT_FILE, verdict)
    command = _train_command(search.config, folder / RECIPE_FILE) if best["is_better"] else None
    return SearchResult(folder, verdict, conclusion, command)


def _write_trials(study: Study, search: Search) -> None:
    """Write a row per trial: number, value, state, seconds, parameters, score, baseline or not, failure reason."""
    names = [*search.space, *SCORE_KEYS, BASELINE_ATTRIBUTE, FAILURE_REASON]
    rows = []
    for trial in counted_trials(study):
        seconds = trial.duration and trial.duration.total_seconds()
        stored = trial.user_attrs | trial.params
        rows.append([trial.number, trial.value, trial.state.name, seconds, *map(stored.get, names)])
    table = pd.DataFrame(rows, columns=["number", "value", "state", "duration", *names])
    write_text(search.folder / TRIALS_FILE, table.to_csv(index=False))


def _write_recipe(params: Mapping[str, Any], comments: list[str], search: Search) -> None:
    """Write ``best.yaml`` with the given parameters."""
    file = search.folder / RECIPE_FILE
    text = recipe_text(search.config_with(params), [*comments, _train_command(search.config, file)])
    write_text(file, sign(text, search.folder))


def _conclusion(candidates: list[Candidate], objective: str) -> str:
    """Return in one line whether the best candidate beats the baseline."""
    if not candidates:
        return "No comparison: re-runs failed; run the same command again to retry them."
    best = candidates[0]
    n_seeds = len(best["success"])
    measure = OBJECTIVES[objective]
    if best["name"] == BASELINE:
        return f"No better than the baseline: no trial has a higher {measure} on {n_seeds} fresh seeds each."
    start = "Better than the baseline" if best["is_better"] else "Not significantly better than the baseline"
    compared = f"{best['name']} minus baseline, {measure} on {n_seeds} fresh seeds each"
    return f"{start}: {compared}: {format_gain(best['gain'])}, 95 % interval."


def _train_command(config: OptimizeConfig, recipe: Path) -> str:
    env = config.env.label if config.env.label in conf_files("env") else config.env.id  # env.name is any text
    words = ["rlher", "train", f"algo={config.algo.name}", f"env={env}", "--recipe", str(recipe)]
    paths = {"demos": config.demos.path, "init_from": config.init_from}  # a recipe holds no paths
    return shlex.join([*words, *override_words({key: path for key, path in paths.items() if path})])


# ------------------------------------------------------------------------------------------- best.yaml


def recipe_text(config: RunConfig, comments: list[str]) -> str:
    """Return a recipe with the values that differ from the defaults of the algorithm and the environment.

    :param comments: lines at the start of the recipe.
    """
    name = config.env.label
    env = read_env_config(name) if name in conf_files("env") else EnvConfig(id=config.env.id)
    defaults = values_by_key(replace(config.defaults(), env=env))
    values = {key: value for key, value in param_values(config).items() if key not in NOT_IN_RECIPE}
    tuned = {key: value for key, value in values.items() if value != defaults[key]}
    # A name may contain a newline. The text after it would become a key of a signed file.
    head = "".join(f"# {escape_control(line)}\n" for line in comments)
    return head + (dump_yaml(from_dotted_keys(tuned)) if tuned else "# no value differs from the defaults\n")


# ---------------------------------------------------------------------------------------------- plots


def _write_plots(study: Study, search: Search) -> None:
    """Write the plots that the study has enough trials for."""
    trials = completed_trials(study, search.space)
    if len(trials) < 2:
        return
    plots: dict[str, Callable[[], object]] = {
        "history": lambda: optuna_plots.plot_optimization_history(study),
        "slice": lambda: _draw_slice(study),
    }
    if len({trial.value for trial in trials}) > 1 and len(trials) > 3:
        plots["importances"] = lambda: optuna_plots.plot_param_importances(study)
    if any({STRATEGY, N_GOALS} <= set(trial.params) for trial in trials):
        plots["strategies"] = lambda: optuna_plots.plot_rank(study, params=[STRATEGY, N_GOALS])
    for name, draw in plots.items():
        with plt.rc_context(FIGURE_SETTINGS | {"figure.dpi": 120}), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a warning about an axis with a single value
            draw()
            with atomic_write(search.folder / f"{name}.png") as file:
                plt.savefig(file, bbox_inches="tight")
            plt.close("all")


def _draw_slice(study: Study) -> None:
    optuna_plots.plot_slice(study)
    for axes in plt.gcf().axes:
        axes.tick_params(axis="x", labelrotation=45)
        if axes.get_xscale() == "log":  # default labels are formulas, and labels of minor ticks overlap
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
