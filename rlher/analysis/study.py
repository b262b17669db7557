"""Read a study of `rlher optimize` for the report: result, recipe, trials and pictures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from rlher.analysis.embedded_files import embed
from rlher.core.console import warn
from rlher.core.errors import first_line
from rlher.core.reading import read_json, read_table, read_text
from rlher.run.run_folder import read_commands
from rlher.tuning.study_folder import BEST, TRIALS, VERDICT


@dataclass(frozen=True)
class LoadedStudy:
    """A study of `rlher optimize`; fields are empty while it is running or if a file is damaged.

    :param counts: number of trials by state.
    :param candidates: results of the re-runs as text, best first.
    :param trials: ``trials.csv`` as text, without empty columns.
    :param pictures: content of each picture, as :func:`embed` returns it.
    """

    folder: Path
    name: str
    counts: str
    candidates: pd.DataFrame
    best: str
    command: str
    trials: pd.DataFrame
    pictures: dict[Path, str]


def read_study(folder: Path) -> LoadedStudy:
    """Read the folder of a study."""
    verdict = read_json(folder / VERDICT)
    counts = verdict.get("trials")
    return LoadedStudy(
        folder,
        name=str(verdict.get("study", folder.name)),
        counts=", ".join(f"{count} {state}" for state, count in counts.items()) if isinstance(counts, dict) else "",
        candidates=_candidates(folder, verdict),
        best=read_text(folder / BEST),
        command="\n".join(read_commands(folder, BEST)),
        trials=_trials(folder / TRIALS),
        pictures=embed(sorted(folder.glob("*.png"))),
    )


def _candidates(folder: Path, verdict: dict[str, Any]) -> pd.DataFrame:
    from rlher.tuning.reruns import table_row  # imports Optuna

    try:
        return pd.DataFrame([table_row(candidate) for candidate in verdict.get("candidates", [])])
    except Exception:  # a damaged file raises many kinds
        warn(f"skipped the candidates of {folder / VERDICT}: damaged")
        return pd.DataFrame()


def _trials(path: Path) -> pd.DataFrame:
    try:
        table = read_table(path) if path.is_file() else pd.DataFrame()
    except (OSError, ValueError) as error:  # pandas' exceptions are ValueErrors
        warn(f"skipped {path}: {first_line(error)}")
        table = pd.DataFrame()
    return (
        table.dropna(axis="columns", how="all")
        .map(lambda value: f"{value:.6g}" if isinstance(value, float) else str(value), na_action="ignore")
        .fillna("")
    )
