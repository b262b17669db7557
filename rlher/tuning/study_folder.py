"""Names of the files in the folder of a study of `rlher optimize`."""

from pathlib import Path

STUDY_FILE = "study.db"
"""Optuna's database, unless ``storage`` names another."""
TRIALS_FILE = "trials.csv"
RECIPE_FILE = "best.yaml"
"""The recipe of the best candidate."""
VERDICT_FILE = "verdict.json"
"""The comparison with the baseline."""
RERUNS_FOLDER = "reruns"
"""Folder with the run folders of the re-runs."""


def is_study(folder: Path) -> bool:
    """Return whether a folder is the folder of a study."""
    return any((folder / name).is_file() for name in (VERDICT_FILE, TRIALS_FILE, STUDY_FILE))
