"""The words of a command line as overrides."""

from pathlib import Path

import pytest

from rlher.cli import flags
from rlher.core.errors import UserError


def test_flags_and_overrides_in_any_order() -> None:
    words = ["algo=sac", "-m", "--n-envs", "2", "--config-dir=conf", "seed=0,1", "--no-progress", "--device=cpu"]
    overrides = ["algo=sac", "seed=0,1", "n_envs=2", "progress=false", "device=cpu"]
    assert flags.parse("train", words) == (overrides, True, False, ["conf"])
    assert flags.parse("train", ["--cfg", "job", "x=1"]) == (["x=1"], False, True, [])
    assert flags.parse("optimize", ["--space", "x.yaml", "space=her"]).overrides == [
        "search_space=her",
        "search_space=x.yaml",
    ]
    assert flags.parse("evaluate", ["logs/a b", "--episodes", "3"]).overrides == ["run='logs/a b'", "episodes=3"]
    assert flags.parse("train", ["env=Some-v9"]).overrides == ["env=any", "env.id=Some-v9"]


def test_names_of_algorithms_and_environments_need_no_key() -> None:
    assert flags.parse("train", ["sac", "FetchReach-v4"]).overrides == ["algo=sac", "env=FetchReach-v4"]
    assert flags.parse("check", ["FetchReach-v4"]).overrides == ["env=FetchReach-v4"]
    with pytest.raises(UserError):
        flags.parse("check", ["sac"])


def test_a_folder_may_have_an_equals_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=0.1").mkdir()
    assert flags.parse("plot", ["lr=0.1", "x=wall"]).overrides == ["runs=['lr=0.1']", "x=wall"]


def test_steps_may_be_written_as_powers_of_ten() -> None:
    assert flags.parse("train", ["total_timesteps=1e5", "--n-envs", "2.0"]).overrides == [
        "total_timesteps=100000",
        "n_envs=2",
    ]
    assert flags.parse("train", ["algo.learning_rate=1e-5"]).overrides == ["algo.learning_rate=1e-5"]
