"""`rlher train`: every algorithm, strategy and environment; the run folder; interrupted and failed runs."""

import json
import math
import shutil
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from same_run import differences

from rlher.algos import ALGORITHMS
from rlher.cli import lists
from rlher.cli.main import main
from rlher.config.conf_files import read_env_config
from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.her.strategies import STRATEGIES
from tests.conftest import TINY
from tests.support.tiers import slow_except

BITS = ("env=BitFlipping-v0", "env.kwargs.n_bits=4", "recipe=null")


def fitting(algo: str) -> str:
    return f"env.kwargs.continuous={'true' if ALGORITHMS[algo].actions == 'continuous' else 'false'}"


@pytest.mark.parametrize(("algo", "strategy"), zip([*ALGORITHMS, "sac", "dqn", "ddpg"], STRATEGIES, strict=True))
def test_every_algorithm_and_every_strategy_trains(rlher, tmp_path: Path, algo: str, strategy: str) -> None:
    words = (f"her.goal_selection_strategy={strategy}", "total_timesteps=60", "eval.freq=30")
    assert rlher("train", f"algo={algo}", *BITS, fitting(algo), *TINY, *words).code == 0
    result = json.loads((tmp_path / f"logs/{algo}/BitFlipping-v0_1/result.json").read_text())
    assert result["timesteps"] == 60
    assert 0 <= result["success_rate_low"] <= result["success_rate"] <= result["success_rate_high"] <= 1


ENVS = [row["env"] for row in lists.envs() if not row["needs"]]
FAST_ENVS = ["BitFlipping-v0", "FetchPush-v4", "parking-v0"]


@pytest.mark.parametrize("env", slow_except(FAST_ENVS, ENVS))
def test_every_environment_trains(rlher, tmp_path: Path, env: str) -> None:
    algo = "dqn" if read_env_config(env).actions == "discrete" else "ddpg"
    short = ("total_timesteps=60", "env.max_episode_steps=20", "eval.freq=1000", "eval.final_episodes=1")
    done = rlher("train", f"algo={algo}", f"env={env}", "recipe=null", *TINY, *short)
    assert done.code == 0, done.err
    assert (tmp_path / f"logs/{algo}/{env}_1/last_model.zip").exists()


def test_a_run_learns_the_task(rlher) -> None:
    """Six bits in 1,500 steps: 98 % in our runs, 1 % for a random policy."""
    words = ("total_timesteps=1500", "eval.freq=1500", "algo.net_arch=[64,64]", "algo.batch_size=64")
    done = rlher("train", "algo=dqn", *BITS[:1], "env.kwargs.n_bits=6", *words, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["success_rate"] >= 0.8


def test_without_progress_nothing_but_the_result_is_printed(rlher) -> None:
    done = rlher("train", "algo=dqn", *BITS, *TINY, "total_timesteps=90", "progress=false")
    assert done.code == 0
    assert (bool(done.out), done.err) == (True, "")


def evaluations(run: Path) -> pd.DataFrame:
    return pd.read_csv(run / "evaluations.csv")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, which ``finished`` copies."""
    logs = tmp_path_factory.mktemp("trained") / "logs"
    words = ("--total-timesteps", "120", "eval.freq=40", "seed=3", f"logs={logs}")
    assert main(["train", "algo=dqn", *BITS, *TINY, *words]) == 0
    return logs / "dqn/BitFlipping-v0_1"


@pytest.fixture
def finished(rlher, trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "logs/dqn/BitFlipping-v0_1")


def test_the_run_folder(finished: Path) -> None:
    rows = evaluations(finished)
    assert list(rows.timesteps) == [40, 80, 120]
    assert {"success_rate", "mean_reward", "mean_length", "wall_seconds"} <= set(rows)

    result = json.loads((finished / "result.json").read_text())
    assert {"success_rate", "success_rate_low", "success_rate_high", "mean_reward", "mean_length"} <= set(result)
    assert {"timesteps", "wall_seconds", "best"} <= set(result)
    assert result["episodes"] == 4
    assert result["status"] == "finished"

    meta = json.loads((finished / "meta.json").read_text())
    assert meta["seed"] == 3
    assert meta["packages"]["stable-baselines3"]
    assert meta["machine"]["cores"] >= 1
    if (Path(__file__).parents[2] / ".git").exists():
        assert len(meta["git"]["commit"]) == 40

    config = yaml.safe_load((finished / "config.yaml").read_text())
    assert config["env"]["kwargs"]["n_bits"] == 4
    assert config["algo"]["gradient_steps"] == 1
    command = (finished / "command.txt").read_text()
    assert command.startswith("rlher train algo=dqn env=BitFlipping-v0")
    assert "total_timesteps=120" in command
    assert not list(finished.glob(".*")), "a temporary file was left behind"


def test_the_final_evaluation_is_reproducible(rlher, finished: Path) -> None:
    """The saved model plays the same episodes as the model in memory did."""
    result = json.loads((finished / "result.json").read_text())
    words = ("--model", "last", "--episodes", "4", "--seed", "1010000", "--json")
    again = json.loads(rlher("evaluate", str(finished), *words).out)
    assert again["mean_reward"] == result["mean_reward"]


def test_overlapped_processes_give_the_numbers_of_one_process(rlher, tmp_path: Path) -> None:
    words = ("algo=td3", *BITS, "env.kwargs.continuous=true", *TINY, "total_timesteps=120", "n_envs=2")
    for vec_env in ("subproc", "dummy"):
        assert rlher("train", *words, f"vec_env={vec_env}").code == 0
    one, two = (tmp_path / f"logs/td3/BitFlipping-v0_{n}" for n in (1, 2))
    assert differences(one, two) == []


def test_setting_the_clock_back_changes_nothing(rlher, monkeypatch, at_env_steps) -> None:
    folder, words = Path("logs/dqn/BitFlipping-v0_2"), ("algo=dqn", *BITS, *TINY, "total_timesteps=120", "eval.freq=40")
    assert rlher("train", *words).code == 0
    clock, clock_ns = time.time, time.time_ns

    def put_back() -> None:
        monkeypatch.setattr(time, "time", lambda: clock() - 86_400)
        monkeypatch.setattr(time, "time_ns", lambda: clock_ns() - 86_400 * 10**9)

    at_env_steps(folder, {60: put_back})
    assert rlher("train", *words).code == 0
    assert differences(folder.parent / "BitFlipping-v0_1", folder) == []
    assert 0 < json.loads((folder / "result.json").read_text())["wall_seconds"] < 60


def test_init_from_starts_with_the_other_runs_model(rlher, finished: Path) -> None:
    done = rlher("train", "algo=dqn", *BITS, *TINY, "total_timesteps=41", f"init_from={finished}", "eval.freq=5")
    assert done.code == 0, done.err
    # Before learning_starts=40 there are no updates, so the first evaluation is that of the other run's last model.
    first, last = evaluations(finished.parent / "BitFlipping-v0_2").iloc[0], evaluations(finished).iloc[-1]
    assert first.mean_reward == pytest.approx(last.mean_reward, abs=1.5)


def interrupt(*arguments: object) -> tuple:
    raise KeyboardInterrupt


def test_ctrl_c_saves_the_model(rlher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "logs/dqn/BitFlipping-v0_1"
    with monkeypatch.context() as patch:
        patch.setattr("rlher.algos.dqn.DQN.update", interrupt)
        done = rlher("train", "algo=dqn", *BITS, *TINY, "total_timesteps=1000", "eval.freq=1000")
    assert done.code == 130
    assert json.loads((folder / "result.json").read_text())["status"] == "interrupted"
    assert "rlher resume logs/dqn/BitFlipping-v0_1" in done.err
    assert rlher("evaluate", str(folder), "--episodes", "2").code == 0


def test_diverged_weights_end_the_run_and_are_not_saved(rlher, tmp_path: Path) -> None:
    wild = ("algo.learning_rate=1e30", "algo.target_q_bounds=null", "eval.freq=20")
    done = rlher("train", "algo=sac", *BITS, "env.kwargs.continuous=true", *TINY, *wild, "total_timesteps=200")
    assert done.code == 1
    folder = tmp_path / "logs/sac/BitFlipping-v0_1"
    assert not (folder / "last_model.zip").exists()
    assert rlher("evaluate", str(folder), "--episodes", "2").code == 0, "the earlier best model"
    assert rlher("evaluate", str(folder), "--model", "last").code == 2, "no last model"


def fail(*arguments: object) -> None:
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize(
    ("what", "named"), [(fail, "ZeroDivisionError"), (lambda *arguments: math.nan, "compute_reward")]
)
def test_a_fault_of_compute_reward_saves_the_model(rlher, monkeypatch, tmp_path: Path, what, named: str) -> None:
    compute, folder = BitFlippingEnv.compute_reward, tmp_path / "logs/dqn/BitFlipping-v0_1"
    broken = []

    def computed(self, achieved, desired, info):
        if folder.exists() and np.ndim(achieved) > 1:
            broken.append("from the first batch of relabelled goals on")
        return what() if broken else compute(self, achieved, desired, info)

    monkeypatch.setattr(BitFlippingEnv, "compute_reward", computed)
    done = rlher("train", "algo=dqn", *BITS, *TINY, "total_timesteps=200")
    assert (done.code, named in done.err) == (1, True)
    assert (folder / "last_model.zip").exists()


def test_the_best_model_is_the_default(rlher, finished: Path) -> None:
    best = json.loads((finished / "result.json").read_text())["best"]["timesteps"]
    words = ("evaluate", "--episodes", "1")
    assert f"best model, after {best} steps" in rlher(*words).err
    assert "last model, after 120 steps" in rlher(*words, "--model", "last").err
    (finished / "best_model.zip").unlink()
    assert "last model, after 120 steps" in rlher(*words).err


HIGH_UTD = "algo=tqc env.kwargs.continuous=true recipe=high_utd"


@pytest.mark.parametrize("options", ["her.n_steps=3 engine.precision=bf16", "her=sb3", "her=off", HIGH_UTD])
def test_replay_options_train(rlher, options: str) -> None:
    assert rlher("train", "algo=dqn", *BITS, *TINY, *options.split(), "total_timesteps=50").code == 0


@pytest.mark.parametrize(("height", "code"), [(3, 0), (4, 2)])
def test_potential_energy_needs_a_height_in_the_goal(rlher, height: int, code: int) -> None:
    energy = ("her.priority=energy", f"her.priority_kwargs.height={height}", "her.priority_kwargs.step_seconds=0.1")
    done = rlher("train", "algo=dqn", *BITS, *TINY, "total_timesteps=100", *energy)
    assert done.code == code, done.err


@pytest.mark.parametrize("other", ["algo.net_arch=[9,9]", "algo.net_arch=[9]"])
def test_weights_of_other_networks_are_refused(rlher, finished: Path, other: str) -> None:
    done = rlher("train", "algo=dqn", *BITS, *TINY, f"init_from={finished}", other)
    assert (done.code, str(finished) in done.err) == (2, True)
