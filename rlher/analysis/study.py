"""Read a study of `rlher optimize` for the report: result, recipe, trials and pictures."""

from pathlib import Path
from typing import Any

import pandas as pd

from rlher.core.console import warn
from rlher.core.errors import first_line
from rlher.core.reading import read_json, read_table, read_text
from rlher.run.run_folder import read_commands
from rlher.tuning.study_folder import BEST, TRIALS, VERDICT


def read_study(folder: Path) -> dict[str, Any]:
    """Return what the report shows of a study; entries are empty while it is running or if a file is damaged.

    :return: ``counts``, the number of trials by state, as text; ``candidates``, a table of the re-runs, best first;
        ``trials``, a table; ``pictures``, their paths; the other entries are texts.
    """
    verdict = read_json(folder / VERDICT)
    counts = verdict.get("trials")
    return {
        "folder": folder,
        "name": str(verdict.get("study", folder.name)),
        "counts": ", ".join(f"{count} {state}" for state, count in counts.items()) if isinstance(counts, dict) else "",
        "candidates": _candidates(folder, verdict),
        "best": read_text(folder / BEST),
        "command": "\n".join(read_commands(folder, BEST)),
        "trials": _trials(folder / TRIALS),
        "pictures": sorted(folder.glob("*.png")),
    }


def _candidates(folder: Path, verdict: dict[str, Any]) -> pd.DataFrame:
    from rlher.tuning.reruns import table_row  # imports Optuna

    try:
        return pd.DataFrame([table_row(candidate) for candidate in verdict.get("candidates", [])])
    except Exception:  # a damaged file raises many kinds
        warn(f"skipped the candidates of {folder / VERDICT}: damaged")
        return pd.DataFrame()


def _trials(path: Path) -> pd.DataFrame:
    """Return the columns of ``trials.csv`` that are not empty, as text."""
    try:
        table = read_table(path) if path.is_file() else pd.DataFrame()
    except (OSError, ValueError) as error:  # pandas' exceptions are ValueErrors
        warn(f"skipped {path}: {first_line(error)}")
        return pd.DataFrame()
    shown = table.dropna(axis="columns", how="all")
    as_text = shown.map(lambda cell: f"{cell:.6g}" if isinstance(cell, float) else str(cell), na_action="ignore")
    return as_text.fillna("")
