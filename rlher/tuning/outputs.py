"""Results of a search: best.yaml, verdict.json, trials.csv, plots and the table on stdout."""

import json
import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from optuna.study import Study
from optuna.trial import TrialState

from rlher.config.override_syntax import quote
from rlher.config.tuning import OptimizeConfig, train_config
from rlher.core.console import escape_control
from rlher.core.files import write_json, write_text
from rlher.evaluation.metrics import TARGET_SUCCESS
from rlher.runs.metadata import typed_command
from rlher.runs.trust import sign
from rlher.tuning.objective import BASELINE_NUMBER
from rlher.tuning.plots import write_plots
from rlher.tuning.recipe import recipe_text
from rlher.tuning.scoring import Score, format_steps
from rlher.tuning.search_space import apply_params, decode
from rlher.tuning.significance import Candidate
from rlher.tuning.study import WORKER, counted_trials, elapsed_seconds
from rlher.tuning.study_progress import STATES, failure_reason

Params = Mapping[int, Mapping[str, Any]]


def write_results(
    study: Study, compared: list[Candidate], candidates: Params, config: OptimizeConfig, folder: Path
) -> None:
    """Write the files into the study's folder and print the comparison on stdout.

    :param compared: the candidates with their differences, best first; empty if the re-runs failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "command.txt", typed_command() + "\n")
    write_trials(study, folder / "trials.csv")
    files = ["command.txt", "trials.csv", *(plot.name for plot in write_plots(study, folder))]
    best_yaml = folder / "best.yaml"
    if compared:
        number = compared[0].number
        origin = "the baseline, which no trial beat" if number == BASELINE_NUMBER else f"trial {number}"
        comments = [f"Values of {origin}.", _conclusion(compared, config), _train_command(config, best_yaml)]
        best = apply_params(train_config(config), candidates[compared[0].number])
        write_text(best_yaml, sign(recipe_text(best, comments), folder))
        write_json(folder / "verdict.json", _summary(study, compared, candidates))
        files = ["best.yaml", "verdict.json", *files]
    if config.json:
        print(json.dumps({"folder": str(folder), **_summary(study, compared, candidates)}))
    else:
        lines = [_count_states(study), *_table(compared, candidates), _conclusion(compared, config)]
        print("\n".join(map(escape_control, [*lines, f"written to {folder}: {', '.join(files)}"])))
    if compared and compared[0].is_better:
        print(f"use it: {_train_command(config, best_yaml)}", file=sys.stderr)


def write_trials(study: Study, path: Path) -> None:
    """Write one row a trial: state, values, score, parameters, worker, and the reason if it failed."""
    rows = [
        {
            "trial": trial.number,
            "state": STATES[trial.state],
            **{f"value_{index}": value for index, value in enumerate(trial.values or [])},
            **{name: trial.user_attrs.get(name) for name in Score.__dataclass_fields__},
            "train_seconds": trial.user_attrs.get("seconds"),
            "seconds": elapsed_seconds(trial),
            **trial.params,
            "worker": trial.user_attrs.get(WORKER),
            "reason": failure_reason(trial) if trial.state is TrialState.FAIL else None,
        }
        for trial in counted_trials(study)
    ]
    write_text(path, pd.DataFrame(rows).to_csv(index=False))


def _count_states(study: Study) -> str:
    states = Counter(STATES[trial.state] for trial in counted_trials(study))
    return f"{sum(states.values())} trials: " + ", ".join(f"{number} {state}" for state, number in states.items())


def _table(compared: list[Candidate], candidates: Params) -> list[str]:
    if not compared:
        return []
    lines = [f"{'':<10} {'success':>8}  {'area':>6}  {f'{TARGET_SUCCESS}% at':>8}  {'difference':<26} parameters"]
    for each in compared:
        is_baseline = each.number == BASELINE_NUMBER
        name, difference = ("baseline", "") if is_baseline else (f"trial {each.number}", _difference(each))
        parameters = " ".join(f"{key}={_format(value)}" for key, value in candidates[each.number].items())
        steps = format_steps(each.steps, each.reached)
        lines.append(
            f"{name:<10} {np.mean(each.success):>8.1%}  {np.mean(each.auc):>6.3f}  {steps:>8}  "
            f"{difference:<26} {parameters}".rstrip()
        )
    return lines


def _conclusion(compared: list[Candidate], config: OptimizeConfig) -> str:
    """Return in one line whether the best candidate beats the baseline."""
    if not compared:
        return "No comparison: the re-runs failed."
    best, n_seeds = compared[0], len(compared[0].success)
    measure = "area under the success curve" if config.objective == "auc" else "success rate"
    if best.number == BASELINE_NUMBER:
        return f"No better than the baseline: no trial has a higher {measure} on {n_seeds} fresh seeds each."
    start = "Better than the baseline" if best.is_better else "Not significantly better than the baseline"
    return (
        f"{start}: trial {best.number} minus trial 0, {measure} on {n_seeds} fresh seeds each: "
        f"{_difference(best)}, 95 % interval."
    )


def _difference(candidate: Candidate) -> str:
    gain, low, high = candidate.gain
    return f"{gain:+.3f} [{low:+.3f}, {high:+.3f}]"


def _format(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace(" ", "")


def _train_command(config: OptimizeConfig, recipe: Path) -> str:
    env = config.env.name or config.env.id
    words = ["rlher", "train", f"algo={config.algo.name}", f"env={env}", "--recipe", str(recipe)]
    given = {"demos": config.demos.path, "init_from": config.init_from}  # a recipe has no paths
    return shlex.join([*words, *(f"{key}={quote(path)}" for key, path in given.items() if path is not None)])


def _summary(study: Study, compared: list[Candidate], candidates: Params) -> dict[str, Any]:
    return {
        "study": study.study_name,
        "trials": Counter(STATES[trial.state] for trial in counted_trials(study)),
        "candidates": [
            {
                **asdict(each),
                "is_better": each.is_better,
                "params": {key: decode(value) for key, value in candidates[each.number].items()},
            }
            for each in compared
        ],
    }
