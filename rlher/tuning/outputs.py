"""What a search hands back: best.yaml, trials.csv, pictures, and the verdict in words."""

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

from rlher.config.tuning import OptimizeConfig
from rlher.core.console import escape_control
from rlher.core.files import write_json, write_text
from rlher.tuning import recipe
from rlher.tuning.objective import RECIPE, recipe_of
from rlher.tuning.plots import plots
from rlher.tuning.progress import STATES, reason, seconds
from rlher.tuning.scoring import Score
from rlher.tuning.search_space import decode, merged
from rlher.tuning.shared_study import WORKER, counted
from rlher.tuning.significance import Candidate


def hand_back(
    study: Study,
    found: list[Candidate],
    chosen: Mapping[int, Mapping[str, Any]],
    config: OptimizeConfig,
    folder: Path,
) -> None:
    """Write everything into the study's folder and print the verdict, on stdout.

    :param found: the verdict, best first; empty where the re-runs failed.
    :param chosen: the candidates' parameters.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_trials(study, folder / "trials.csv")
    pictures = plots(study, folder)
    lines = [_counts(study), *_table(found, chosen), *_words(found, config)]
    files = ["trials.csv", *(picture.name for picture in pictures)]
    if found:
        best = found[0]
        comments = [*_words(found, config), _command(config, folder / "best.yaml")]
        write_text(folder / "best.yaml", recipe.text(merged(recipe_of(config), chosen[best.number]), comments))
        write_json(folder / "verdict.json", _summary(study, found, chosen))
        files = ["best.yaml", "verdict.json", *files]
    if config.json:
        print(json.dumps({"folder": str(folder), **_summary(study, found, chosen)}))
    else:
        print("\n".join(map(escape_control, [*lines, f"kept in {folder}: {', '.join(files)}"])))
    if found:
        print(f"use it: {_command(config, folder / 'best.yaml')}", file=sys.stderr)


def write_trials(study: Study, path: Path) -> None:
    """Write a row a trial: state, value, score, parameters, worker, and why it failed where it did."""
    rows = [
        {
            "trial": trial.number,
            "state": STATES[trial.state],
            **{f"value_{index}": value for index, value in enumerate(trial.values or [])},
            **{name: trial.user_attrs.get(name) for name in Score.__dataclass_fields__},
            "train_seconds": trial.user_attrs.get("seconds"),
            "seconds": seconds(trial),
            **trial.params,
            "worker": trial.user_attrs.get(WORKER),
            "reason": reason(trial) if trial.state is TrialState.FAIL else None,
        }
        for trial in counted(study)
    ]
    write_text(path, pd.DataFrame(rows).to_csv(index=False))


def _counts(study: Study) -> str:
    states = Counter(STATES[trial.state] for trial in counted(study))
    return f"{sum(states.values())} trials: " + ", ".join(f"{number} {state}" for state, number in states.items())


def _table(found: list[Candidate], chosen: Mapping[int, Mapping[str, Any]]) -> list[str]:
    if not found:
        return []
    lines = [f"{'':<10} {'success':>8}  {'area':>6}  {'90 % at':>8}  {'difference':<26} parameters"]
    for each in found:
        gain = "" if each.number == RECIPE else _difference(each)
        parameters = " ".join(f"{key}={_shown(value)}" for key, value in chosen[each.number].items())
        lines.append(
            f"{_name(each):<10} {np.mean(each.success):>8.1%}  {np.mean(each.auc):>6.3f}  {each.steps:>8,.0f}  "
            f"{gain:<26} {parameters}".rstrip()
        )
    return lines


def _words(found: list[Candidate], config: OptimizeConfig) -> list[str]:
    if not found:
        return ["The re-runs failed, so there is no verdict."]
    best, seeds = found[0], len(found[0].success)
    measure = "area under the success curve" if config.objective == "auc" else "success rate"
    if best.number == RECIPE:
        return [f"No better than the default: on {seeds} fresh seeds each, no trial beat the recipe in {measure}."]
    told = (
        f"trial {best.number} minus trial 0, the recipe, in {measure} on {seeds} fresh seeds each: {_difference(best)}"
    )
    if best.is_better:
        return [f"Better: {told}, 95 % interval."]
    return [f"No better than the default as far as these runs can tell: {told}, 95 % interval."]


def _difference(each: Candidate) -> str:
    gain, low, high = each.gain
    return f"{gain:+.3f} [{low:+.3f}, {high:+.3f}]"


def _name(each: Candidate) -> str:
    return "recipe" if each.number == RECIPE else f"trial {each.number}"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace(" ", "")


def _command(config: OptimizeConfig, best: Path) -> str:
    return shlex.join(
        ["rlher", "train", f"algo={config.algo.name}", f"env={config.env.name or config.env.id}", f"tuned={best}"]
    )


def _summary(study: Study, found: list[Candidate], chosen: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "study": study.study_name,
        "trials": Counter(STATES[trial.state] for trial in counted(study)),
        "candidates": [
            {
                **asdict(each),
                "is_better": each.is_better,
                "params": {key: decode(value) for key, value in chosen[each.number].items()},
            }
            for each in found
        ],
    }
