"""Read a Minari dataset as trajectories: with h5py alone, so that nothing in it is executed, unpickled or followed.

Minari itself builds the environment of a dataset that does not name its spaces, which imports any module that the file
names. Here only arrays of numbers are read, after their types, shapes and sizes were compared with what is expected.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlher.core.errors import DamagedFile, UserError, first_line
from rlher.core.safe_read import MAX_COMPRESSION, links_outside, read_json, require_regular_file
from rlher.demonstrations import location
from rlher.her.layout import ACHIEVED, GOAL
from rlher.her.trajectory import Trajectory

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


class _Damaged(Exception):
    """The content of a dataset is inconsistent."""


def read_dataset(dataset: str, observation_space: spaces.Dict, action_space: spaces.Space) -> Dataset:
    """Return the episodes of a dataset.

    :param dataset: its folder, or its name in Minari's folder.
    :param observation_space: of the environment; further entries of the dataset's observations are left out.
    :raises MissingFile: there is no such dataset.
    :raises DamagedFile: it is damaged or incomplete.
    :raises UserError: it has no goals, no episodes, other spaces, or another format than HDF5.
    """
    folder = location.find(dataset)
    metadata = read_json(folder / location.METADATA)
    if metadata.get("data_format", "hdf5") != "hdf5":
        raise UserError(
            f"{dataset} is stored as {metadata['data_format']}; convert it with Minari to data_format='hdf5'."
        )
    path = folder / location.MAIN
    try:
        trajectories = list(_read(path, metadata, dataset, observation_space, action_space))
        env_id, own = _env_id(metadata), metadata.get(OWN) or {}
        found = Dataset(trajectories, metadata, env_id, int(own.get("action_repeat", 1)))
    except UserError:
        raise
    except Exception as error:  # h5py raises exceptions of many kinds for damaged files
        raise DamagedFile(path, first_line(error)) from error
    if not trajectories:
        raise UserError(f"{dataset} holds no episodes; collect some with `rlher collect`.")
    return found


def _env_id(metadata: dict[str, Any]) -> str | None:
    spec = metadata.get("env_spec")
    own = metadata.get(OWN) or {}
    return str(json.loads(spec)["id"]) if isinstance(spec, str) else own.get("env")


def _read(
    path: Path, metadata: dict[str, Any], dataset: str, observation_space: spaces.Dict, action_space: spaces.Space
) -> Iterator[Trajectory]:
    import h5py

    require_regular_file(path)
    if links_outside(path):
        raise _Damaged("it is a link to another folder")
    shapes = {key: space.shape or () for key, space in observation_space.spaces.items()}
    with h5py.File(path, "r") as file:
        names = list(file)
        if len(names) != metadata.get("total_episodes"):
            raise _Damaged(f"it has {len(names)} episodes, not {metadata.get('total_episodes')}")
        arrays = _Arrays(MAX_COMPRESSION * path.stat().st_size)
        for number in range(len(names)):
            episode = arrays.group(file, f"episode_{number}")
            observations = arrays.group(episode, "observations") if _is_group(episode, "observations") else {}
            missing = [key for key in (ACHIEVED, GOAL) if key not in observations]
            if missing:
                raise UserError(
                    f"the observations of {dataset} have no {' and no '.join(missing)}; use a dataset of a goal "
                    "environment."
                )
            rewards = arrays.numbers(episode, "rewards").reshape(-1)
            actions = arrays.numbers(episode, "actions")
            found = {key: arrays.numbers(observations, key) for key in shapes if key in observations}
            wanted = {**shapes, "actions": action_space.shape or ()}
            _require_shapes({**found, "actions": actions}, wanted, dataset)
            steps = len(rewards)
            lengths = {len(actions), *(len(values) - 1 for values in found.values())}
            if steps < 1 or lengths != {steps}:
                raise _Damaged(f"the arrays of episode {number} have different lengths")
            ended = arrays.numbers(episode, "terminations").reshape(-1)
            yield Trajectory(found, actions, rewards, bool(ended[-1]))


def _is_group(parent: Any, name: str) -> bool:
    import h5py

    return parent.get(name, getclass=True) is h5py.Group


def _require_shapes(found: dict[str, NDArray], wanted: dict[str, tuple[int, ...]], dataset: str) -> None:
    """Raise UserError if a key is missing, or its entries have another shape than the environment's."""
    for key, shape in wanted.items():
        if key not in found or found[key].shape[1:] != shape:
            has = f"shape {found[key].shape[1:]}" if key in found else "none"
            raise UserError(
                f"{dataset} does not fit the environment: {key} should have the shape {shape}, but has {has}; use a "
                "dataset of the same environment."
            )


@dataclass
class _Arrays:
    """Reads arrays of a file with a limit on their total size.

    :param left: bytes that may still be read; a damaged or hostile file may declare arrays of any size.
    """

    left: int

    def group(self, parent: Any, name: str) -> Any:
        """Return a group that is stored in the file itself."""
        import h5py

        if not isinstance(parent.get(name, getlink=True), h5py.HardLink):
            raise _Damaged(f"{name} is missing, or a link")
        return parent[name]

    def numbers(self, parent: Any, name: str) -> NDArray:
        """Return an array of finite numbers that is stored in the file itself."""
        data = self.group(parent, name)
        if data.dtype.kind not in "biuf" or data.external or data.is_virtual:
            raise _Damaged(f"{name} is not an array of numbers")
        self.left -= data.nbytes
        if self.left < 0 or data.ndim < 1:
            raise _Damaged(f"{name} has the shape {data.shape}")
        values: NDArray = data[()]
        if not np.isfinite(values).all():
            raise _Damaged(f"{name} has a value that is not finite")
        return values
