"""Write episodes as a Minari dataset, which other tools read."""

import copy
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import minari
import numpy as np
from gymnasium.envs.registration import EnvSpec
from minari.data_collector.episode_buffer import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage
from numpy.typing import NDArray

from rlher.core.errors import UserError, os_error_reason
from rlher.her.demonstrations import Trajectory

VERSIONED = re.compile(r"[-\w]+-v\d+")
"""What Minari accepts as the name of a dataset."""

EPISODE_BYTES = 50_000
"""Room for an episode's small arrays and HDF5's own tables, which take 24 to 28 kB."""


@dataclass(frozen=True)
class RecordedEpisode:
    """An episode to be written.

    :param success: (T + 1,) whether the goal was reached, at the reset and after each step.
    """

    trajectory: Trajectory
    seed: int
    success: NDArray[np.bool_]


def write_dataset(
    folder: Path,
    episodes: Sequence[RecordedEpisode],
    env: gym.Env,
    max_episode_steps: int | None,
    metadata: dict[str, Any],
) -> None:
    """Write a dataset beside its place, and rename it.

    :param folder: of the dataset; its name is the dataset's id, its parent what ``MINARI_DATASETS_PATH`` should name.
    :param env: in which the episodes were recorded, for its spaces and its registration.
    :param max_episode_steps: limit of an episode, for an environment that is made from the dataset.
    :param metadata: added to Minari's own; JSON values.
    :raises UserError: it cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent.absolute(), prefix=f".{folder.name}.") as temporary:
            # Minari joins the parts of a relative path twice, so this one is absolute.
            data = Path(temporary) / "data"
            _require_space(Path(temporary), episodes)
            spec = _describable_spec(env, max_episode_steps)
            storage = MinariStorage.new(data, env.observation_space, env.action_space, spec, jpeg_encoding=False)
            storage.update_episodes(_buffer(number, episode) for number, episode in enumerate(episodes))
            storage.update_metadata({"dataset_id": folder.name, "minari_version": minari.__version__, **metadata})
            folder.mkdir()
            shutil.move(data, folder / "data")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {os_error_reason(error)}.") from error


def _require_space(folder: Path, episodes: Sequence[RecordedEpisode]) -> None:
    """Raise OSError unless the disk has room for episodes: HDF5 ends the process if it cannot write."""
    arrays = [array for each in episodes for array in (*each.trajectory.observations.values(), each.trajectory.actions)]
    size = sum(array.nbytes for array in arrays) + EPISODE_BYTES * (len(episodes) + 1)
    with tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, size)


def _describable_spec(env: gym.Env, max_episode_steps: int | None) -> EnvSpec | None:
    """Return the environment's registration, None if it cannot be written as JSON: its entry point is a function."""
    spec = copy.deepcopy(env.unwrapped.spec)  # has no wrappers, and so no limit of steps
    if spec is None:
        return None
    spec.max_episode_steps = max_episode_steps
    try:
        spec.to_json()
    except (TypeError, ValueError):
        return None
    return spec


def _buffer(number: int, episode: RecordedEpisode) -> EpisodeBuffer:
    trajectory = episode.trajectory
    return EpisodeBuffer(
        id=number,
        seed=episode.seed,
        observations=dict(trajectory.observations),
        actions=trajectory.actions,
        rewards=trajectory.rewards,
        terminations=_at_last_step(trajectory, trajectory.terminated),
        truncations=_at_last_step(trajectory, not trajectory.terminated),
        infos={"is_success": episode.success},
    )


def _at_last_step(trajectory: Trajectory, value: bool) -> Any:
    """Return (T,) False for each step but the last, and the value for that."""
    flags = np.zeros(len(trajectory), dtype=bool)
    flags[-1] = value
    return flags


def new_folder(output: str, name: str) -> Path:
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
