"""The precision of the losses is chosen by measurement, and kept."""

from pathlib import Path

import pytest
import torch as th
import yaml

from rlher.algos import precision
from tests.conftest import TINY

CPU = th.device("cpu")


@pytest.mark.parametrize(
    ("mode", "has_units", "batch", "ratio", "chosen"),
    [
        ("auto", True, 2048, 0.4, "bf16"),
        ("auto", True, 2048, 0.9, "float32"),
        ("auto", True, 128, 0.4, "float32"),
        ("auto", False, 2048, 0.4, "float32"),
        ("bf16", False, 256, 9.0, "bf16"),
        ("float32", True, 2048, 0.1, "float32"),
    ],
)
def test_bf16_if_it_is_faster(monkeypatch, mode: str, has_units: bool, batch: int, ratio: float, chosen: str) -> None:
    monkeypatch.setattr(precision, "has_bf16_units", lambda device: has_units)
    monkeypatch.setattr(precision, "time_network", lambda *_, bf16=False: ratio if bf16 else 1.0)
    assert precision.choose_precision(mode, CPU, batch, [64])[0] == chosen


def test_measuring_leaves_random_numbers_and_threads() -> None:
    threads, state = th.get_num_threads(), th.get_rng_state()
    assert precision.time_network(32, [16, 16], CPU, bf16=True) > 0
    assert th.get_num_threads() == threads
    assert th.equal(th.get_rng_state(), state)


@pytest.mark.parametrize(("algo", "faster", "chosen"), [("dqn", True, "bf16"), ("dqn", False, "float32")])
def test_a_run_keeps_the_choice_when_it_is_resumed(rlher, monkeypatch, algo: str, faster: bool, chosen: str) -> None:
    def measure(*_: object, bf16: bool = False) -> float:
        return 0.1 if bf16 == faster else 1.0

    monkeypatch.setattr(precision, "MIN_BATCH", 16)
    monkeypatch.setattr(precision, "has_bf16_units", lambda device: True)
    monkeypatch.setattr(precision, "time_network", measure)
    words = ("algo=" + algo, "env=BitFlipping-v0", "env.n_bits=4", *TINY, "total_timesteps=60")
    done = rlher("train", *words, "engine.precision=auto")
    assert done.code == 0, done.err
    assert f"precision {chosen}" in done.err
    faster = not faster
    folder = Path(f"logs/{algo}/BitFlipping-v0_1")
    assert rlher("train", "--resume", str(folder), "total_timesteps=+20").code == 0
    assert yaml.safe_load((folder / "config.yaml").read_text())["engine"]["precision"] == chosen


def test_auto_is_float32_where_the_update_step_is_another_ones(rlher) -> None:
    words = ("algo=dqn", "env=BitFlipping-v0", "env.n_bits=4", *TINY, "engine=sb3", "engine.precision=auto")
    assert rlher("train", *words, "total_timesteps=60").code == 0
    config = yaml.safe_load(Path("logs/dqn/BitFlipping-v0_1/config.yaml").read_text())
    assert config["engine"]["precision"] == "float32"
