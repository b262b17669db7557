"""Names and places of datasets: Minari keeps ``<dataset>/data/`` in a folder of datasets."""

import os
import re
from pathlib import Path

from rlher.core.errors import MissingFile, UserError

METADATA, MAIN = "metadata.json", "main_data.hdf5"

VERSIONED = re.compile(r"[-\w]+-v\d+")
"""What Minari accepts as the name of a dataset."""


def find(dataset: str) -> Path:
    """Return the folder with the data of a dataset.

    :param dataset: its folder, or the name of one in Minari's own folder.
    :raises MissingFile: there is no such dataset.
    """
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")
    for folder in (Path(dataset), root / dataset):
        for data in (folder / "data", folder):
            if (data / METADATA).is_file():
                return data
    inside = sorted(str(path.parents[1]) for path in Path(dataset).glob(f"*/data/{METADATA}"))
    if inside:
        raise MissingFile(Path(dataset), f"{dataset} holds several datasets; use one of {', '.join(inside)}.")
    raise MissingFile(
        Path(dataset),
        f"there is no dataset {dataset}, neither as a folder nor in {root}; `rlher collect` makes one, and "
        "`minari download` fetches public ones.",
    )


def new(output: str, name: str) -> Path:
    """Return the folder of a new dataset.

    :param output: the folder itself if it ends with a version, such as ``demos/pick-v0``; else one of datasets.
    :param name: of a dataset in a folder of datasets, without a version; the first free version is added.
    :raises UserError: the dataset exists.
    """
    path = Path(output)
    if not VERSIONED.fullmatch(path.name):
        name = re.sub(r"[^-\w]+", "-", name)
        taken = {each.name for each in path.glob(f"{name}-v*")}
        return path / next(f"{name}-v{number}" for number in range(len(taken) + 1) if f"{name}-v{number}" not in taken)
    if path.exists():
        raise UserError(f"{path} exists; choose another output, such as {path.with_name(_next_version(path.name))}.")
    return path


def _next_version(name: str) -> str:
    stem, _, version = name.rpartition("-v")
    return f"{stem}-v{int(version) + 1}"
