import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts background processes like this
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
STATE = tempfile.TemporaryDirectory()
os.environ["XDG_STATE_HOME"] = STATE.name  # of the key that signs runs
os.fsync = lambda handle: None  # a tenth of the time of a short run; only a power failure needs it


Make = Callable[..., Path]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


LONGEST = ("docker", "cluster", "notebook", "sweep", "search", "export", "outputs", "resume", "extend", "stress_resume")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The longest first, so that none waits for it.
    order = {f"test_{name}.py": index for index, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(LONGEST)))


@pytest.fixture(autouse=True, scope="session")
def imports_of_a_run() -> None:
    """Let the fork server import what a run's workers need; without it, each worker of a test imports torch.

    Imported here, since the process that distributes the tests loads this file as well, before it starts any.
    """
    from rlher.algos.compilation import skip_compiler_import
    from rlher.core import fork_server

    fork_server.start(fork_server.SEARCH_MODULES)
    skip_compiler_import()  # for plain models of Stable-Baselines3, which few tests compile


@pytest.fixture(autouse=True)
def safe_path_of_one_test() -> Iterator[None]:
    """Remove what ``main`` and ``rlher.api`` set for child processes; scripts import modules beside them."""
    os.environ.pop("PYTHONSAFEPATH", None)
    yield
    os.environ.pop("PYTHONSAFEPATH", None)


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def rlher(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Outcome]:
    """Run a command line in this process, in an empty folder. It prints no traceback."""
    from rlher.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # runs from elsewhere remove the current folder

    def run(*words: str) -> Outcome:
        capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as stop:  # argparse: --help, --cfg, wrong choice
            code = int(stop.code or 0)
        logging.disable(logging.NOTSET)
        outcome = Outcome(code, *capsys.readouterr())
        sys.stderr.write(outcome.err if code else "")  # pytest shows it if the test fails
        assert "Traceback" not in outcome.err
        return outcome

    return run


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], object]], None]:
    """Do something once in the middle of the first step from a given one on."""

    def plan(steps: int, act: Callable[[], object]) -> None:
        from rlher.training.trainer import TrainerCallback

        before, done = TrainerCallback._on_step, []

        def on_step(self: Any) -> bool:
            if self.model.num_timesteps >= steps and not done:
                done.append(True)
                act()
            return before(self)

        monkeypatch.setattr(TrainerCallback, "_on_step", on_step)

    return plan


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 120 steps on six bits, with clips and a model for each of its three evaluations."""
    from rlher.cli.main import main

    logs = tmp_path_factory.mktemp("enjoy") / "logs"
    optional = ("eval.keep_models=true", "record=true", "eval.freq=40")
    assert main(["train", *BITS, "total_timesteps=120", *optional, f"logs={logs}"]) == 0
    return logs / "dqn/BitFlipping-v0_1"


@pytest.fixture
def make_run(tmp_path: Path) -> Make:
    """Write a run folder with a linear learning curve."""
    import numpy as np
    import pandas as pd
    import yaml

    def make(name: str, seed: int = 0, rise: float = 0.1, freq: int = 100, rows: int = 10, **config: Any) -> Path:
        folder = tmp_path / "logs" / name
        folder.mkdir(parents=True)
        values = {
            "algo": {"name": "sac", "learning_rate": 0.001} | config.pop("algo", {}),
            "env": {"id": "Some-v0", "name": ""} | config.pop("env", {}),
            "her": {"goal_selection_strategy": "future", "n_sampled_goal": 4} | config.pop("her", {}),
            "seed": seed,
            "total_timesteps": freq * rows,
        } | config
        (folder / "config.yaml").write_text(yaml.safe_dump(values))
        steps = freq * np.arange(1, rows + 1)
        success = np.minimum(rise * np.arange(1, rows + 1), 1)
        frame = pd.DataFrame({"timesteps": steps, "success_rate": success, "mean_reward": success * 10 - 10})
        frame["updates"], frame["wall_seconds"] = steps * 2, steps / 50
        frame.to_csv(folder / "evaluations.csv", index=False)
        (folder / "result.json").write_text(
            json.dumps({"success_rate": float(success[-1]), "episodes": 100, "timesteps": int(steps[-1])})
        )
        return folder

    return make


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """Mount a small file system on a folder; skip the test where that is not permitted."""
    try:
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        subprocess.run(mount, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


TINY = (
    "algo.batch_size=16",
    "algo.net_arch=[16]",
    "algo.learning_starts=40",
    "eval.freq=60",  # by default there are 20 evaluations
    "eval.episodes=2",
    "eval.final_episodes=4",
    "tensorboard=false",
)
"""Overrides with which a training run takes about a second."""

BITS = ("algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=6", "recipe=null", *TINY)
