"""Names of the files in the folder of a study of `rlher optimize`."""

from pathlib import Path

JOURNAL = "journal.log"
"""Optuna's journal, unless a database is used."""
TRIALS = "trials.csv"
BEST = "best.yaml"
"""The recipe of the best candidate."""
VERDICT = "verdict.json"
"""The comparison with the baseline."""
RERUNS = "reruns"
"""Folder with the run folders of the re-runs."""


def is_study(folder: Path) -> bool:
    """Return whether a folder is that of a study."""
    return any((folder / name).is_file() for name in (VERDICT, TRIALS, JOURNAL))
