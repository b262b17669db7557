"""RL Zoo's command lines and YAML files."""

import inspect
import shlex
from pathlib import Path
from pkgutil import resolve_name

import pytest
import yaml

from rlher import make_env
from rlher.cli import command_line, rl_zoo
from rlher.config.algorithms import ALGORITHMS

HER_YML = """
FetchPush-v1: &her-defaults
  n_timesteps: !!float 1e6
  policy: 'MultiInputPolicy'
  buffer_size: 100000
  learning_rate: lin_1e-3
  train_freq: "(2, 'step')"
  noise_type: 'normal'
  noise_std: 0.1
  replay_buffer_class: HerReplayBuffer
  replay_buffer_kwargs: "dict(
    goal_selection_strategy='episode',
    n_sampled_goal=8,
  )"
  policy_kwargs: "dict(net_arch=dict(pi=[512, 512], qf=[64]), n_critics=2)"

FetchReach-v4:
  <<: *her-defaults
  normalize: True
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("train --algo sac -n=5 --seed 1 --device cpu", "algo=sac total_timesteps=5 seed=1 device=cpu"),
        (
            "train --algo sac --eval-freq 500 --eval-episodes 5 --num-threads 2 --track",
            "algo=sac eval.freq=500 eval.episodes=5 threads=2 logger=wandb",
        ),
        ("optimize --algo sac --n-trials 5 --n-jobs 2", "algo=sac n_trials=5 workers=2"),
        (
            "train -params learning_rate:lin_1e-3 noise_std:0.1 gradient_steps:-1 env_kwargs:dict(a='b') her=off",
            "algo.learning_rate_schedule=linear algo.learning_rate=0.001 algo.action_noise=0.1 "
            "algo.gradient_steps=null env.kwargs.a=b her=off",
        ),
        (
            "train --hyperparams policy_kwargs:dict(net_arch=[8],log_std_init=-3,activation_fn=nn.ELU)",
            "algo.net_arch=[8] algo.policy_kwargs.log_std_init=-3 algo.activation=elu",
        ),
    ],
)
def test_flags_of_rl_zoo_are_read(line: str, expected: str) -> None:
    name, *words = line.split()
    assert sorted(shlex.split(str(command_line.parse(name, words)))[2:]) == sorted(expected.split())


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("--algo sac --env X -n 10000", "read as: rlher train algo=sac env=X total_timesteps=10000\n"),
        ("--algo sac --env X --n-trials=5", "read as: rlher optimize algo=sac env=X n_trials=5\n"),
        ("--algo sac --env X --n-trials 5", "read as: rlher optimize algo=sac env=X n_trials=5\n"),
        ("train --algo sac --env FetchReach-v4 --seed 1 --device cpu --total-timesteps 500", ""),
    ],
)
def test_a_line_without_a_command_trains_and_is_printed(rlher, line: str, printed: str) -> None:
    done = rlher(*line.split(), "--cfg", "job")
    assert (done.code, done.err) == (0, printed)
    assert "total_timesteps: " in done.out


def test_a_line_of_rl_zoo_trains(rlher) -> None:
    line = "--algo dqn --env BitFlipping-v0 -n 60 --eval-freq=60 env.kwargs.n_bits=3 --seed 3 "
    params = "-params batch_size:16 policy_kwargs:dict(net_arch=[16]) -params learning_starts:30"
    small = ("recipe=null", "eval.episodes=1", "eval.final_episodes=1", "tensorboard=false")
    assert rlher(*(line + params).split(), *small).code == 0
    config = yaml.safe_load(Path("logs/dqn/BitFlipping-v0_1/config.yaml").read_text())
    assert (config["total_timesteps"], config["eval"]["freq"], config["seed"]) == (60, 60, 3)
    assert (config["algo"]["net_arch"], config["algo"]["learning_starts"]) == ([16], 30)


@pytest.mark.parametrize("text", ["__import__('os').system('false')", "nn.ReLU", "(" * 5000])
def test_values_of_a_file_are_not_run(text: str) -> None:
    assert rl_zoo.parse_python_literal("dict(a=[1, -2.5], b={'c': None})") == {"a": [1, -2.5], "b": {"c": None}}
    assert rl_zoo.parse_python_literal(text) == text


def test_a_yaml_file_of_rl_zoo_is_read(rlher, tmp_path: Path) -> None:
    (tmp_path / "her.yml").write_text(HER_YML)
    line = ("--algo", "sac", "--env", "FetchReach-v4", "--conf-file", "her.yml")
    config = yaml.safe_load(rlher(*line, "-params", "batch_size:64", "--cfg", "job").out)
    assert config["total_timesteps"] == 1_000_000
    assert config["algo"]["net_arch"] == {"pi": [512, 512], "qf": [64]}
    assert (config["algo"]["train_freq"], config["algo"]["action_noise"]) == (2, 0.1)
    assert (config["algo"]["learning_rate"], config["algo"]["learning_rate_schedule"]) == (1e-3, "linear")
    assert config["algo"]["batch_size"] == 64
    assert config["her"]["n_sampled_goal"] == 8
    assert config["normalize"]["enabled"]
    assert yaml.safe_load(rlher(*line, "her=off", "--cfg", "job").out)["her"]["n_sampled_goal"] == 0
    assert "--conf-file her.yml" in rlher(*line[:-2], "--recipe", "her.yml").err
    assert rlher(*line[:-1], "missing.yml").code == 2
    assert rlher("train", *line[2:], "--cfg", "job").code == 2, "the defaults are those of an algorithm"
    assert rlher("--algo", "sac", "--env", "parking-v0", *line[-2:]).code == 2


@pytest.mark.parametrize("algo", ["dqn", "tqc"])
def test_values_that_a_file_leaves_out_are_those_of_sb3(rlher, algo: str) -> None:
    env = "BitFlipping-v0" if algo == "dqn" else "FetchReach-v4"
    Path("short.yml").write_text(f"{env}:\n  n_timesteps: 500\n  gamma: 0.5\n")
    line = ("--env", env, "-conf", "short.yml", "--algo")
    assert rlher("train", "-m", *line, f"{algo},sac").code == 2
    config = yaml.safe_load(rlher(*line, algo if algo == "dqn" else "rlher.algos.tqc:TQC", "--cfg", "job").out)
    assert config["total_timesteps"] == 500
    assert not config["normalize"]["enabled"]
    found = config["algo"]
    assert found["gamma"] == 0.5
    assert found.get("target_q_bounds") is None
    parameters = inspect.signature(resolve_name(ALGORITHMS[algo].sb3_class)).parameters
    own = {name: each.default for name, each in parameters.items() if name in found and each.default is not None}
    own.pop("gamma")
    assert {name: type(value)(found[name]) for name, value in own.items()} == own
    model = resolve_name(ALGORITHMS[algo].sb3_class)("MultiInputPolicy", make_env(env), buffer_size=10)
    assert found["net_arch"] == model.policy.net_arch


@pytest.mark.parametrize(
    "entry",
    ["{1: 2}", "{online_sampling: true}", "{noise_type: ornstein-uhlenbeck}", "{train_freq: [1, episode]}"],
)
def test_an_unknown_hyperparameter_is_refused(rlher, tmp_path: Path, entry: str) -> None:
    (tmp_path / "odd.yml").write_text(f"FetchReach-v4: {entry}\n")
    assert rlher("train", "--algo", "sac", "--env", "FetchReach-v4", "--conf-file", "odd.yml").code == 2


@pytest.mark.parametrize(
    "line",
    [
        "env_wrapper: ['mine.X']",
        "callback: ['mine.X']",
        "learning_rate_schedule: 'mine:x'",
        "policy_kwargs: \"dict(features_extractor_class='mine:Net')\"",
        "replay_buffer_kwargs: \"dict(goal_selection_strategy='mine:x')\"",
    ],
)
def test_a_file_of_rl_zoo_cannot_name_code(rlher, tmp_path: Path, line: str) -> None:
    (tmp_path / "mine.py").write_text("open('ran', 'w')\n")
    (tmp_path / "her.yml").write_text(f"BitFlipping-v0:\n  n_timesteps: 60\n  {line}\n")
    done = rlher("train", "--algo", "dqn", "--env", "BitFlipping-v0", "--conf-file", "her.yml")
    assert done.code == 2
    assert "--trust-code" in done.err
    trusted = rlher("train", "algo=dqn", "env=BitFlipping-v0", "-conf", "her.yml", "trust_code=True", "--cfg", "job")
    assert (trusted.code, "--trust-code" in trusted.err) == (0, False)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "line",
    [
        *("--seed 1", "--algo sac -n", "--algo sac -n --seed 1", "--algo sac -params noise_type:'x'"),
        *("--algo sac td3", "--algo sac --eval-freq -1"),
    ],
)
def test_an_invalid_line_is_the_users_mistake(rlher, line: str) -> None:
    assert rlher(*line.split()).code == 2
