"""Reading datasets: of plain Minari, and damaged or unsuitable ones, of which nothing is loaded or executed."""

import json
import os
import sys
import tracemalloc
import types
import warnings
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import h5py
import numpy as np
import pytest
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
from minari.serialization import serialize_space
from torch.utils import _pytree

from rlher.core.errors import DamagedFile, UserError
from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.her.datasets import collected_env, read_dataset, write_dataset
from rlher.her.trajectories import Trajectory
from tests.support.fuzzing.checks import time_limit

ENV = BitFlippingEnv(n_bits=3)


def episode(steps: int, bit: int = 0) -> EpisodeBuffer:
    """Return an episode that flips one bit again and again."""
    bits = np.zeros((steps + 1, 3), dtype=np.int8)
    bits[1::2, bit] = 1
    observations = {"observation": bits, "achieved_goal": bits, "desired_goal": np.ones_like(bits)}
    ends = np.arange(steps) == steps - 1
    terminated = ends & (bit == 2)
    success = {"is_success": np.zeros(steps + 1, dtype=bool)}
    actions, rewards = np.full(steps, bit), -np.ones(steps)
    return EpisodeBuffer(None, 7, None, observations, actions, rewards, terminated, ends & ~terminated, success)


IMAGES = serialize_space(spaces.Box(0, 255, (3, 3, 3), np.uint8))
ESCAPED = IMAGES.replace("uint8", "uint\\u0038")


def read(folder: Path | str) -> list[Trajectory]:
    collected_env(str(folder))
    return read_dataset(str(folder), ENV.observation_space, ENV.action_space)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "demos/flip-v0"
    write_dataset(folder, [episode(3), episode(1, bit=2)], ENV, 3, {"rlher": {"action_repeat": 2, "env": "Bits-v0"}})
    return folder


def test_what_was_written_is_read(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(dataset.parent))
    for name in (dataset, dataset / "data", "flip-v0"):
        trajectories = read(name)
        assert [len(trajectory) for trajectory in trajectories] == [3, 1]
        assert [trajectory.terminated for trajectory in trajectories] == [False, True]
        for one, two in zip(trajectories, (episode(3), episode(1, bit=2)), strict=True):
            assert (one.actions == two.actions).all()
            assert (one.rewards == two.rewards).all()
            for key, values in two.observations.items():
                assert (one.observations[key] == values).all()
        assert collected_env(str(name)) == ("Bits-v0", 2)
    assert not [*dataset.parent.glob(".*")], "no temporary folder is left"


def collect_with_minari(monkeypatch: pytest.MonkeyPatch, root: Path, env: gym.Env, episodes: int, name: str) -> Path:
    """Record random episodes with Minari's ``DataCollector``, without rlher, and return the dataset's folder."""
    try:
        import jax.tree_util
    except ImportError:  # Minari needs nothing of jax but this function
        jax, tree_util = types.ModuleType("jax"), types.ModuleType("jax.tree_util")
        jax.tree_util, tree_util.tree_map = tree_util, _pytree.tree_map
        monkeypatch.setitem(sys.modules, "jax", jax)
        monkeypatch.setitem(sys.modules, "jax.tree_util", tree_util)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    from minari import DataCollector

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collector = DataCollector(env, record_infos=True)
        collector.action_space.seed(0)
        for seed in range(episodes):
            collector.reset(seed=seed)
            done = False
            while not done:
                _, _, terminated, truncated, _ = collector.step(collector.action_space.sample())
                done = terminated or truncated
        collector.create_dataset(dataset_id=name)
        collector.close()
    return root / name


def test_a_dataset_of_plain_minari_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gym.register(
        "TinyBits-v0", entry_point="rlher.envs.bit_flipping:BitFlippingEnv", kwargs={"n_bits": 3}, max_episode_steps=4
    )
    env = gym.make("TinyBits-v0")
    folder = collect_with_minari(monkeypatch, tmp_path, env, 4, "bits-v0")
    trajectories = read(folder)
    gym.registry.pop("TinyBits-v0")
    assert [trajectory.seed for trajectory in trajectories] == [0, 1, 2, 3]
    assert collected_env(str(folder)) == ("TinyBits-v0", 1)
    for trajectory in trajectories:
        before, after = trajectory.observations["observation"][:-1], trajectory.observations["observation"][1:]
        assert (np.argmax(before != after, axis=1) == trajectory.actions).all()


def edit(file: str, change: Callable) -> Callable[[Path], None]:
    """Return an attack that edits the metadata or the arrays of a dataset."""

    def attack(dataset: Path) -> None:
        path = dataset / "data" / file
        if file.endswith("json"):
            values = json.loads(path.read_text())
            change(values)
            path.write_text(json.dumps(values))
        else:
            with h5py.File(path, "a") as opened:
                change(opened)

    return attack


def replace(name: str, values=None, **options) -> Callable[[Path], None]:
    def change(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, data=values, **options)

    return edit("main_data.hdf5", change)


def link(name: str, target) -> Callable[[Path], None]:
    def change(file: h5py.File) -> None:
        del file[name]
        file[name] = target

    return edit("main_data.hdf5", change)


def truncate(dataset: Path) -> None:
    path = dataset / "data/main_data.hdf5"
    path.write_bytes(path.read_bytes()[:-500])


def pipe(dataset: Path) -> None:
    (dataset / "data/main_data.hdf5").unlink()
    os.mkfifo(dataset / "data/main_data.hdf5")


DAMAGES = {
    "a pipe": pipe,
    "cut": truncate,
    "no JSON": lambda dataset: (dataset / "data/metadata.json").write_text("{"),
    "fewer episodes": edit("metadata.json", lambda values: values.update(total_episodes=3)),
    "shorter rewards": replace("episode_1/rewards", np.zeros(2)),
    "NaN": replace("episode_0/rewards", np.array([0, np.nan, 0])),
    "no dictionary": replace("episode_0/observations", np.zeros((4, 3))),
    "no step": replace("episode_1/rewards", np.zeros(0)),
    "a link outside": link("episode_1", h5py.ExternalLink("/etc/passwd", "/")),
    # 128 MB that are not in the file: HDF5 would fill them in.
    "too large": replace("episode_1/rewards", shape=(2**24,), dtype=np.float64, chunks=(1024,)),
    "bytes of another file": replace("episode_1/rewards", shape=(1,), dtype=float, external=[("/dev/zero", 0, 8)]),
    "infos in themselves": edit("main_data.hdf5", lambda file: file["episode_0/infos"].__setitem__("all", file["/"])),
    "metadata": edit("metadata.json", lambda values: values.update(rlher=[1])),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_dataset_is_refused(dataset: Path, damage: str) -> None:
    DAMAGES[damage](dataset)
    tracemalloc.start()
    with time_limit(30), pytest.raises(DamagedFile) as caught:
        read(dataset)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24
    assert caught.value.path.is_relative_to(dataset)
    assert "\n" not in str(caught.value)


UNSUITABLE = {
    "another format": edit("metadata.json", lambda values: values.update(data_format="arrow")),
    "images": edit("metadata.json", lambda values: values.update(action_space=IMAGES)),
    "images in other words": edit("metadata.json", lambda values: values.update(action_space=ESCAPED)),
    "no goals": edit("main_data.hdf5", lambda file: file["episode_0/observations"].pop("achieved_goal")),
    "other goals": replace("episode_0/observations/desired_goal", np.zeros((4, 2))),
    "no observation": edit("main_data.hdf5", lambda file: file["episode_1/observations"].pop("observation")),
    "other actions": replace("episode_1/actions", np.zeros((1, 2))),
    "empty": lambda dataset: [
        edit("metadata.json", lambda values: values.update(total_episodes=0))(dataset),
        edit("main_data.hdf5", lambda file: [file.pop(name) for name in [*file]])(dataset),
    ],
}


@pytest.mark.parametrize("case", UNSUITABLE)
def test_an_unsuitable_dataset_is_refused(dataset: Path, case: str) -> None:
    UNSUITABLE[case](dataset)
    with pytest.raises(UserError, match=str(dataset)) as caught:
        read(dataset)
    assert not isinstance(caught.value, DamagedFile)


def test_an_environment_that_a_dataset_names_is_not_imported(dataset: Path, tmp_path: Path, monkeypatch) -> None:
    """Minari would make it, if the metadata had no spaces: any module with any arguments."""
    (tmp_path / "hostile_module.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = {"id": "Hostile-v0", "entry_point": "hostile_module:Env"}

    def change(values: dict) -> None:
        del values["observation_space"], values["action_space"]
        values["env_spec"] = json.dumps(spec)

    edit("metadata.json", change)(dataset)
    with pytest.raises(DamagedFile):
        read(dataset)
    assert not (tmp_path / "executed").exists()


def test_entries_that_the_environment_lacks_are_left_out(dataset: Path) -> None:
    smaller = spaces.Dict({key: ENV.observation_space[key] for key in ("achieved_goal", "desired_goal")})
    trajectories = read_dataset(str(dataset), smaller, ENV.action_space)
    assert {*trajectories[0].observations} == {"achieved_goal", "desired_goal"}
