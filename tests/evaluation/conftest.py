from pathlib import Path

import pytest

from rlher.cli.main import main
from tests.conftest import TINY

BITS = ("algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=6", "recipe=null", *TINY)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 120 steps on six bits, with clips and a model for each of its three evaluations."""
    logs = tmp_path_factory.mktemp("enjoy") / "logs"
    optional = ("eval.keep_models=true", "record=true", "eval.freq=40")
    assert main(["train", *BITS, "total_timesteps=120", *optional, f"logs={logs}"]) == 0
    return logs / "dqn/BitFlipping-v0_1"


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
