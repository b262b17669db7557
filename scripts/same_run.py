"""Compare two runs bit for bit."""

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch as th

CLOCK = "wall_seconds"


def differences(one: Path, two: Path) -> list[str]:
    """Return which files and results of two run folders differ, wall-clock times excluded."""
    found = [
        name for name in ("last_model.zip", "best_model.zip") if not _same(_arrays(one / name), _arrays(two / name))
    ]
    if _rows(one) != _rows(two):
        found.append("evaluations.csv")
    results = [json.loads((folder / "result.json").read_text()) | {CLOCK: 0} for folder in (one, two)]
    found += [f"result.json: {key}" for key in results[0] if results[0][key] != results[1].get(key)]
    return found


def _arrays(path: Path) -> dict[str, Any]:
    """Return the weights and statistics in a model file."""
    found: dict[str, Any] = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content = io.BytesIO(archive.read(name))
            if name.endswith(".pth"):
                found[name] = th.load(content, weights_only=True, map_location="cpu")
            elif name.endswith(".npz"):
                found[name] = dict(np.load(content))
    return found


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, th.Tensor):
        return th.equal(one, two)
    return bool(np.array_equal(one, two))


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "evaluations.csv").open() as file:
        return [row | {CLOCK: ""} for row in csv.DictReader(file)]
