"""``evaluations.csv`` of a run folder: its columns, and writing and reading its rows."""

import csv
import io
from pathlib import Path
from typing import Any

from rlher.core.reading import read_text_or_empty
from rlher.core.writing import atomic_write
from rlher.evaluation.metrics import METRICS_BY_NAME

EVALUATIONS_FILE = "evaluations.csv"

EVALUATION_COLUMNS = ("timesteps", *METRICS_BY_NAME, "episodes", "updates", "wall_seconds")
"""The columns: a row is one evaluation."""

EvaluationRows = list[dict[str, Any]]
"""The rows of a run, the newest last."""


def write_evaluations(folder: Path, rows: EvaluationRows) -> None:
    """Replace the file by these rows, or delete the file if there are no rows."""
    if not rows:
        (folder / EVALUATIONS_FILE).unlink(missing_ok=True)
        return
    with atomic_write(folder / EVALUATIONS_FILE) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, EVALUATION_COLUMNS, lineterminator="\n")  # pandas takes half a second to import
        writer.writeheader()
        writer.writerows(rows)


def read_last_evaluation(folder: Path) -> dict[str, str]:
    """Return the last row as texts, or an empty one if the file is missing, empty or unreadable."""
    rows = list(csv.DictReader(io.StringIO(read_text_or_empty(folder / EVALUATIONS_FILE))))
    return rows[-1] if rows else {}
