"""What a study of `rlher optimize` left behind, read from its folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rlher.analysis.html.media import Embedded, embed_all
from rlher.analysis.loading import read_table
from rlher.analysis.tables import percent
from rlher.core.files import links_outside, read_json, read_text

MARKS = ("verdict.json", "trials.csv", "journal.log")
RERUNS = "reruns"
"""Where a study keeps its best trials' run folders."""


@dataclass(frozen=True)
class StudyPage:
    """A study, as far as it could be read.

    :param folder: where it is.
    :param name: its name.
    :param counts: how many trials ended how; empty while it runs.
    :param candidates: the re-runs, best first: column → text.
    :param best: ``best.yaml``, with the verdict in its comments.
    :param command: what was typed.
    :param trials: ``trials.csv``, every cell a text, less what says nothing.
    :param pictures: of the search.
    :param notes: a sentence about each file that was passed over.
    """

    folder: Path
    name: str
    counts: str
    candidates: pd.DataFrame
    best: str
    command: str
    trials: pd.DataFrame
    pictures: list[Embedded]
    notes: list[str]


def is_study(folder: Path) -> bool:
    """Tell whether a folder is a study's."""
    return any((folder / name).is_file() for name in MARKS)


def read_study(folder: Path) -> StudyPage:
    """Read a study's folder; what is damaged is passed over with a sentence."""
    pictures, notes = embed_all(sorted(path for path in folder.glob("*.png") if not links_outside(path)))
    verdict = read_json(folder / "verdict.json")
    return StudyPage(
        folder,
        name=str(verdict.get("study", folder.name)),
        counts=_counts(verdict),
        candidates=_candidates(folder, verdict, notes),
        best=read_text(folder / "best.yaml"),
        command=read_text(folder / "command.txt").strip(),
        trials=_trials(folder / "trials.csv", notes),
        pictures=pictures,
        notes=notes,
    )


def _counts(verdict: dict[str, Any]) -> str:
    trials = verdict.get("trials")
    return ", ".join(f"{number} {state}" for state, number in trials.items()) if isinstance(trials, dict) else ""


def _candidates(folder: Path, verdict: dict[str, Any], notes: list[str]) -> pd.DataFrame:
    try:
        return pd.DataFrame([_candidate(each) for each in verdict.get("candidates", [])])
    except (KeyError, TypeError, ValueError, AttributeError):
        notes.append(f"{folder / 'verdict.json'}: its candidates are damaged")
        return pd.DataFrame()


def _candidate(each: dict[str, Any]) -> dict[str, str]:
    gain, low, high = each["gain"]
    is_recipe = each["number"] < 0
    return {
        "candidate": "the recipe" if is_recipe else f"trial {each['number']}",
        "success": percent(float(np.mean(each["success"]))),
        "of each seed": " / ".join(f"{100 * rate:.0f}" for rate in each["success"]),
        "area": f"{np.mean(each['auc']):.3f}",
        "90 % at": f"{each['steps']:,.0f}",
        "difference to the recipe": "" if is_recipe else f"{gain:+.3f} [{low:+.3f}, {high:+.3f}]",
        "parameters": " ".join(f"{key}={value}" for key, value in each["params"].items()),
    }


def _trials(path: Path, notes: list[str]) -> pd.DataFrame:
    try:
        table = read_table(path, dtype=str).fillna("")
        told = [column for column in table if column != "worker" and table[column].any()]
        return table[told].map(_shortened)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:  # pandas' own are ValueErrors
        notes.append(f"{path}: {str(error).splitlines()[0].rstrip('.')}")
    return pd.DataFrame()


def _shortened(text: str) -> str:
    """Write a number to four digits; anything else as it is."""
    try:
        return text if text.isdigit() else f"{float(text):.4g}"
    except ValueError:
        return text
