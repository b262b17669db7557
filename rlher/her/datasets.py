"""Datasets of demonstrations in Minari's format: read as trajectories, or written for other tools.

A dataset may come from somebody else. Its sizes and links are checked before Minari reads its arrays, and nothing in it
is executed, unpickled or followed. It must name its spaces: otherwise Minari would build the environment that the
dataset names, from any module.
"""

import contextlib
import copy
import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from rlher.core.errors import UserError, as_read_error
from rlher.core.reading import MAX_COMPRESSION, read_json_or_empty, require_regular_file
from rlher.core.writing import as_write_error
from rlher.her.storage import ACHIEVED_GOAL, DESIRED_GOAL
from rlher.her.trajectories import Trajectory

if TYPE_CHECKING:
    from minari.data_collector import EpisodeBuffer

DATASET_METADATA, MAIN_DATA = "metadata.json", "main_data.hdf5"
"""Files in a dataset's folder ``data``."""

METADATA_KEY = "rlher"
"""Key of the metadata under which rlher describes how it collected a dataset."""


def read_dataset(dataset: str, observation_space: spaces.Dict, action_space: spaces.Space) -> list[Trajectory]:
    """Return the episodes of a dataset.

    :param dataset: folder of the dataset, or its name in Minari's folder.
    :param observation_space: observation space of the environment. Other entries of the dataset's observations are
        ignored.
    :raises UserError: there is no such dataset, or it has no goals, no episodes, other spaces, or another format than
        HDF5.
    :raises DamagedFile: it is damaged or incomplete.
    """
    import minari  # takes a while, and few runs have demonstrations

    folder = find_dataset(dataset)
    metadata = read_json_or_empty(folder / DATASET_METADATA)
    if metadata.get("data_format", "hdf5") != "hdf5":
        raise UserError(
            f"{dataset} is stored as {metadata['data_format']}; convert it with Minari to data_format='hdf5'."
        )

    shapes = {key: space.shape or () for key, space in observation_space.spaces.items()}
    with as_read_error(folder / MAIN_DATA):
        if not {"observation_space", "action_space"} <= set(metadata):
            raise ValueError("its metadata do not name its spaces")
        _require_plain_numbers(folder / MAIN_DATA)
        data = minari.MinariDataset(folder)
        if _has_bytes(data.observation_space) or _has_bytes(data.action_space):
            raise UserError(f"{dataset} has images; leave them out, since policies here read vectors.")
        action_shape = action_space.shape or ()
        seeds: list[int | None] = [None] * len(data.episode_indices)
        with contextlib.suppress(ValueError):  # a dataset of another program may have any text
            seeds = [entry.get("seed") for entry in data.storage.get_episode_metadata(data.episode_indices)]
        trajectories = [
            _trajectory(dataset, episode, seed, shapes, action_shape)
            for episode, seed in zip(data.iterate_episodes(), seeds, strict=True)
        ]

    if not trajectories:
        raise UserError(f"{dataset} holds no episodes; collect some with `rlher collect`.")
    return trajectories


def collected_env(dataset: str) -> tuple[str | None, int]:
    """Return the id of the environment in which a dataset was collected, None if unknown, and its ``action_repeat``.

    :raises UserError: there is no such dataset.
    :raises DamagedFile: its metadata are damaged.
    """
    path = find_dataset(dataset) / DATASET_METADATA
    with as_read_error(path):
        metadata = read_json_or_empty(path)
        rlher_metadata = metadata.get(METADATA_KEY) or {}
        spec = metadata.get("env_spec")
        env_id = json.loads(spec)["id"] if spec else rlher_metadata.get("env")
        return env_id, int(rlher_metadata.get("action_repeat", 1))


def _has_bytes(space: spaces.Space) -> bool:
    """Return whether a space has arrays of bytes.

    Minari decodes them with Pillow, which starts Ghostscript for some formats.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return any(map(_has_bytes, space.values() if isinstance(space, spaces.Dict) else space))
    return space.dtype == np.uint8


def data_folder(folder: Path) -> Path | None:
    """Return the folder that holds a dataset's data: ``folder`` or its ``data``. None if there is no dataset."""
    return next((data for data in (folder / "data", folder) if (data / DATASET_METADATA).is_file()), None)


def find_dataset(dataset: str) -> Path:
    """Return the folder with the data of a dataset.

    :param dataset: folder of the dataset, or its name in Minari's folder.
    :raises UserError: there is no such dataset.
    """
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")
    for folder in (Path(dataset), root / dataset):
        if data := data_folder(folder):
            return data
    raise UserError(
        f"there is no dataset {dataset}, neither as a folder nor in {root}; `rlher collect` makes one, and "
        "`minari download` fetches public ones.",
    )


def _require_plain_numbers(path: Path) -> None:
    """Raise ValueError if a file has too large arrays, links, or arrays with content from other files.

    A damaged or hostile file may declare arrays of any size.
    """
    import h5py

    require_regular_file(path)
    sizes: list[int] = []

    def check_link(name: str, link: Any) -> None:
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"{name} is a link")

    def check_entry(name: str, entry: Any) -> None:
        if isinstance(entry, h5py.Dataset):
            sizes.append(entry.nbytes)
            if entry.external or entry.is_virtual:
                raise ValueError(f"the content of {name} is in another file")

    with h5py.File(path, "r") as file:
        file.visititems_links(check_link)
        file.visititems(check_entry)
    if sum(sizes) > MAX_COMPRESSION * path.stat().st_size:
        raise ValueError(f"its arrays are more than {MAX_COMPRESSION} times its size")


def _trajectory(name: str, episode: Any, seed: int | None, shapes: dict[str, tuple], action_shape: tuple) -> Trajectory:
    """Convert an episode of Minari; keep the observation keys that the environment has.

    :param shapes: shapes of the environment's observations, by key.
    """
    observations = episode.observations if isinstance(episode.observations, dict) else {}
    if not {ACHIEVED_GOAL, DESIRED_GOAL} <= observations.keys():
        raise UserError(f"{name} has observations without goals; use a dataset of a goal environment.")
    arrays = {key: observations[key] for key in shapes if key in observations} | {"actions": episode.actions}
    for key, shape in {**shapes, "actions": action_shape}.items():
        if key not in arrays or arrays[key].shape[1:] != shape:
            shape_text = f"shape {arrays[key].shape[1:]}" if key in arrays else "none"
            raise UserError(
                f"{name} does not fit the environment: {key} should have the shape {shape}, but has {shape_text}; use "
                "a dataset of the same environment."
            )
    steps = len(episode.rewards)
    actions = arrays.pop("actions")
    if steps < 1 or len(actions) != steps or any(len(values) != steps + 1 for values in arrays.values()):
        raise ValueError(f"the arrays of episode {episode.id} have different lengths")
    if not all(np.isfinite(values).all() for values in (*arrays.values(), actions, episode.rewards)):
        raise ValueError(f"episode {episode.id} has a value that is not finite")
    return Trajectory(arrays, actions, episode.rewards.reshape(-1), bool(episode.terminations[-1]), seed)


VERSIONED = re.compile(r"[-\w]+-v\d+")
"""What Minari accepts as the name of a dataset."""

EPISODE_BYTES = 50_000
"""Room for an episode's small arrays and HDF5's own tables, which take 24 to 28 kB."""


def write_dataset(
    folder: Path,
    episodes: Sequence["EpisodeBuffer"],
    env: gym.Env,
    max_episode_steps: int | None,
    metadata: dict[str, Any],
) -> None:
    """Write a dataset to a temporary folder, and then move it to its place.

    :param folder: folder of the dataset; its name is the dataset's id, its parent the ``MINARI_DATASETS_PATH``.
    :param episodes: episodes of Minari, with arrays; observations are a dict.
    :param env: environment in which the episodes were recorded. The dataset stores its spaces and its registration.
    :param max_episode_steps: time limit to store, for environments that are made from the dataset.
    :param metadata: added to Minari's own; JSON values.
    :raises UserError: it cannot be written.
    """
    import minari
    from minari.dataset.minari_storage import MinariStorage

    with as_write_error(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent.absolute(), prefix=f".{folder.name}.") as temporary:
            # Minari joins the parts of a relative path twice, so this one is absolute.
            data = Path(temporary) / "data"
            _require_disk_space(Path(temporary), episodes)
            spec = _describable_spec(env, max_episode_steps)
            storage = MinariStorage.new(data, env.observation_space, env.action_space, spec, jpeg_encoding=False)
            storage.update_episodes(episodes)
            storage.update_metadata({"dataset_id": folder.name, "minari_version": minari.__version__, **metadata})
            folder.mkdir()
            shutil.move(data, folder / "data")


def _require_disk_space(folder: Path, episodes: Sequence["EpisodeBuffer"]) -> None:
    """Raise OSError unless the disk has room for episodes, because HDF5 ends the process if it cannot write."""
    arrays = [array for episode in episodes for array in (*episode.observations.values(), episode.actions)]
    size = sum(array.nbytes for array in arrays) + EPISODE_BYTES * (len(episodes) + 1)
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # not on macOS
            os.posix_fallocate(file.fileno(), 0, size)


def _describable_spec(env: gym.Env, max_episode_steps: int | None) -> EnvSpec | None:
    """Return the environment's registration.

    None if there is none, or if it cannot be written as JSON because its entry point is a function.
    """
    spec = copy.deepcopy(env.unwrapped.spec)  # without wrappers, so without a time limit
    if spec is None:
        return None
    spec.max_episode_steps = max_episode_steps
    try:
        spec.to_json()
    except (TypeError, ValueError):
        return None
    return spec


def new_dataset_path(output: str, name: str) -> Path:
    """Return the folder of a new dataset.

    :param output: folder of the dataset if the name ends with a version, such as ``demos/pick-v0``; otherwise a folder
        of datasets.
    :param name: name, without a version, of the dataset in a folder of datasets. The first free version is added.
    :raises UserError: the dataset exists.
    """
    path = Path(output)
    if not VERSIONED.fullmatch(path.name):
        return _first_free_version(path / re.sub(r"[^-\w]+", "-", name))
    if path.exists():
        free = _first_free_version(path.with_name(path.name.rpartition("-v")[0]))
        raise UserError(f"{path} exists; choose another output, such as {free}.")
    return path


def _first_free_version(stem: Path) -> Path:
    """Return ``<stem>-v0``, or the first of the following versions that does not exist."""
    versions = (Path(f"{stem}-v{number}") for number in count())
    return next(version for version in versions if not version.exists())
