"""Translation of typed command lines into Hydra's."""

from pathlib import Path

import pytest

from rlher.cli import flags
from rlher.core.errors import UserError


def test_flags_and_overrides_in_any_order() -> None:
    line = flags.to_hydra("train", ["algo=sac", "-m", "--n-envs", "2", "seed=0,1", "--no-progress", "--device=cpu"])
    assert line == ["-m", "algo=sac", "n_envs=2", "seed=0,1", "progress=false", "device=cpu"]
    assert flags.to_hydra("evaluate", ["logs/a b", "--episodes", "3"]) == ["run='logs/a b'", "episodes=3"]
    assert flags.to_hydra("train", ["env=Some-v9"]) == ["env=any", "env.id=Some-v9"]
    assert flags.to_hydra("train", ["--config-dir=conf", "x=1"]) == ["--config-dir", "conf", "x=1"]
    printed = flags.to_hydra("train", ["--cfg", "job", "x=1", "-p", "algo"])
    assert printed == ["--cfg", "job", "-p", "algo", "--resolve", "x=1"]


def test_names_of_algorithms_and_environments_need_no_key() -> None:
    assert flags.to_hydra("train", ["sac", "FetchReach-v4"]) == ["algo=sac", "env=FetchReach-v4"]
    assert flags.to_hydra("check", ["FetchReach-v4"]) == ["env=FetchReach-v4"]
    with pytest.raises(UserError):
        flags.to_hydra("check", ["sac"])


def test_a_folder_may_have_an_equals_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=0.1").mkdir()
    assert flags.to_hydra("plot", ["lr=0.1", "x=wall"]) == ["runs=['lr=0.1']", "x=wall"]


def test_steps_may_be_written_as_powers_of_ten() -> None:
    assert flags.to_hydra("train", ["total_timesteps=1e5", "--n-envs", "2e0"]) == [
        "total_timesteps=100000",
        "n_envs=2",
    ]
    assert flags.to_hydra("train", ["algo.learning_rate=1e-5"]) == ["algo.learning_rate=1e-5"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("algo.train_freq=[16,episode]", ["algo.train_freq=16", "algo.train_freq_unit=episode"]),
        ("algo.train_freq=(2, 'step')", ["algo.train_freq=2", "algo.train_freq_unit=step"]),
        ("algo.learning_rate=lin_7.3e-4", ["algo.learning_rate=7.3e-4", "algo.learning_rate_schedule=linear"]),
    ],
)
def test_values_may_be_written_as_in_sb3_and_rl_zoo(word: str, expected: list[str]) -> None:
    assert flags.to_hydra("train", [word, "seed=1"]) == [*expected, "seed=1"]
