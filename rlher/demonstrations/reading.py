"""Read a Minari dataset as trajectories, through Minari. Nothing in it is executed, unpickled or followed.

A dataset may come from somebody else. So its sizes and links are checked before Minari reads its arrays, and it must
name its spaces, because Minari would build the environment of a dataset that does not, from any module that it names.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rlher.core.errors import DamagedFile, MissingFile, UserError, first_line
from rlher.core.safe_read import MAX_COMPRESSION, links_outside, read_json, require_regular_file
from rlher.her.demonstrations import Trajectory
from rlher.her.storage import ACHIEVED, GOAL

METADATA, MAIN = "metadata.json", "main_data.hdf5"
"""Files in a dataset's folder ``data``."""

OWN = "rlher"
"""Key of the metadata under which rlher describes how it collected a dataset."""


@dataclass(frozen=True)
class Dataset:
    """The episodes of a dataset and what it says about itself.

    :param metadata: content of ``metadata.json``; nothing in it was checked but ``env_id`` and ``action_repeat``.
    :param env_id: of the environment it was collected in, None if it does not say.
    :param action_repeat: environment steps per action.
    """

    trajectories: list[Trajectory]
    metadata: dict[str, Any]
    env_id: str | None
    action_repeat: int

    @property
    def n_steps(self) -> int:
        """Number of steps of all episodes."""
        return sum(map(len, self.trajectories))


def read_dataset(dataset: str, observation_space: spaces.Dict, action_space: spaces.Space) -> Dataset:
    """Return the episodes of a dataset.

    :param dataset: its folder, or its name in Minari's folder.
    :param observation_space: of the environment; further entries of the dataset's observations are left out.
    :raises MissingFile: there is no such dataset.
    :raises DamagedFile: it is damaged or incomplete.
    :raises UserError: it has no goals, no episodes, other spaces, or another format than HDF5.
    """
    folder = find(dataset)
    metadata = read_json(folder / METADATA)
    if metadata.get("data_format", "hdf5") != "hdf5":
        raise UserError(
            f"{dataset} is stored as {metadata['data_format']}; convert it with Minari to data_format='hdf5'."
        )
    shapes = {key: space.shape or () for key, space in observation_space.spaces.items()}
    try:
        found = _read(folder, metadata, shapes, action_space.shape or ())
    except _Unsuitable as error:
        raise UserError(f"{dataset} {error}") from error
    except Exception as error:  # h5py and Minari raise exceptions of many kinds for damaged files
        raise DamagedFile(folder / MAIN, first_line(error)) from error
    if not found.trajectories:
        raise UserError(f"{dataset} holds no episodes; collect some with `rlher collect`.")
    return found


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


class _Unsuitable(Exception):
    """A dataset does not fit the environment; the message continues the dataset's name."""


def _read(folder: Path, metadata: dict[str, Any], shapes: dict[str, tuple], action_shape: tuple) -> Dataset:
    from minari import MinariDataset

    if not {"observation_space", "action_space"} <= set(metadata):
        raise ValueError("its metadata do not name its spaces")
    _require_plain_numbers(folder / MAIN)
    dataset, own = MinariDataset(folder), metadata.get(OWN) or {}
    trajectories = [_trajectory(episode, shapes, action_shape) for episode in dataset.iterate_episodes()]
    env_id = dataset.env_spec.id if dataset.env_spec else own.get("env")
    return Dataset(trajectories, metadata, env_id, int(own.get("action_repeat", 1)))


def _require_plain_numbers(path: Path) -> None:
    """Raise ValueError if a file is too large, or has links or anything but arrays of numbers where Minari reads.

    A damaged or hostile file may declare arrays of any size, and take their content from other files.
    """
    import h5py

    require_regular_file(path)
    if links_outside(path):
        raise ValueError("it is a link to another folder")
    with h5py.File(path, "r") as file:
        left = MAX_COMPRESSION * path.stat().st_size
        for name, item in _items(file):
            if isinstance(item, h5py.Dataset):
                left -= item.nbytes
                if item.external or item.is_virtual or left < 0:
                    raise ValueError(f"{name} has the shape {item.shape}, or its content is in another file")


def _items(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names and objects below a group.

    :raises ValueError: one of them is a link.
    """
    import h5py

    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{prefix}{name} is a link")
        item = group[name]
        yield f"{prefix}{name}", item
        if isinstance(item, h5py.Group):
            yield from _items(item, f"{prefix}{name}/")


def _trajectory(episode: Any, shapes: dict[str, tuple], action_shape: tuple) -> Trajectory:
    """Return an episode of Minari with the observations that the environment has.

    :param shapes: of the environment's observations, by key.
    """
    observations = episode.observations if isinstance(episode.observations, dict) else {}
    missing = [key for key in (ACHIEVED, GOAL) if key not in observations]
    if missing:
        raise _Unsuitable(f"has observations without {' and '.join(missing)}; use a dataset of a goal environment.")
    arrays = {key: observations[key] for key in shapes if key in observations} | {"actions": episode.actions}
    for key, shape in {**shapes, "actions": action_shape}.items():
        if key not in arrays or arrays[key].shape[1:] != shape:
            has = f"shape {arrays[key].shape[1:]}" if key in arrays else "none"
            raise _Unsuitable(
                f"does not fit the environment: {key} should have the shape {shape}, but has {has}; use a dataset of "
                "the same environment."
            )
    steps = len(episode.rewards)
    expected = {key: steps + (key != "actions") for key in arrays}
    if steps < 1 or {key: len(values) for key, values in arrays.items()} != expected:
        raise ValueError(f"the arrays of episode {episode.id} have different lengths")
    if not all(np.isfinite(values).all() for values in (*arrays.values(), episode.rewards)):
        raise ValueError(f"episode {episode.id} has a value that is not finite")
    actions = arrays.pop("actions")
    return Trajectory(arrays, actions, episode.rewards.reshape(-1), bool(episode.terminations[-1]))
