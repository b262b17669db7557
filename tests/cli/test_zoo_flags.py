"""Every row of RL Zoo's table is executed, and the page shows the table."""

import inspect
import io
import os
import shlex
import zipfile
from pathlib import Path

import pytest
import torch as th
import yaml
from stable_baselines3.common.vec_env import VecNormalize
from zoo_table import PAGE, SECTIONS, render, translated, typed

from rlher.cli import zoo_flags
from rlher.cli.main import main
from rlher.cli.zoo_table import ENJOY, FLAGS, PLOT, SB3_DEFAULTS, SCRIPTS, Row, Script
from rlher.config.algorithms import ALGORITHMS
from rlher.core.errors import UserError
from tests.conftest import TINY

BASE = {
    "train": ("--algo", "tqc", "--env", "FetchReach-v4"),
    "optimize": ("--algo", "sac", "--env", "FetchReach-v4"),
    "export": ("--algo", "dqn", "--env", "BitFlipping-v0"),
}
COMPOSED = [
    (command, row) for name in ("train", "optimize", "export", "parameters") for command, row in [SECTIONS[name]]
]
COMPOSED = [(command, row) for command, rows in COMPOSED for row in rows]
DEFAULT_NETWORK = {
    "dqn": [64, 64],
    "qrdqn": [64, 64],
    "sac": [256, 256],
    "tqc": [256, 256],
    "td3": [400, 300],
    "ddpg": [400, 300],
    "crossq": {"pi": [256, 256], "qf": [1024, 1024]},
}
"""What the policies of Stable-Baselines3 build if no ``net_arch`` is given."""

HER_YML = """
FetchPush-v1: &her-defaults
  n_timesteps: !!float 1e6
  policy: 'MultiInputPolicy'
  buffer_size: 100000
  learning_rate: !!float 1e-3
  replay_buffer_class: HerReplayBuffer
  replay_buffer_kwargs: "dict(
    goal_selection_strategy='episode',
    n_sampled_goal=8,
  )"
  policy_kwargs: "dict(net_arch=[512, 512, 512], n_critics=2)"

FetchReach-v4:
  <<: *her-defaults
  normalize: True
"""


def model_weights(path: Path) -> dict[str, int]:
    """Return the first dimension of every tensor of a model's policy."""
    with zipfile.ZipFile(path) as archive:
        tensors = th.load(io.BytesIO(archive.read("policy.pth")), weights_only=True)
    return {name: len(tensor) for name, tensor in tensors.items()}


def name_of(value: object) -> str:
    return typed(value) if isinstance(value, Row) else str(getattr(value, "name", value))


@pytest.fixture
def zoo(rlher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run command lines in a folder with RL Zoo's her.yml and a run; forget the variables that they set."""
    for variable in ("WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RUN_GROUP", "WANDB_TAGS"):
        monkeypatch.setenv(variable, "")
    (tmp_path / "her.yml").write_text(HER_YML)
    return rlher


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of 80 steps on four bits."""
    logs = tmp_path_factory.mktemp("zoo") / "logs"
    words = (
        "--algo",
        "dqn",
        "--env",
        "BitFlipping-v0",
        "env.n_bits=4",
        "-n",
        "80",
        "--eval-freq",
        "40",
        "-f",
        str(logs),
    )
    assert main([*words, "recipe=null", *TINY, "eval.keep_models=true"]) == 0
    return logs


@pytest.fixture
def with_run(zoo, logs: Path, tmp_path: Path):
    """``zoo`` with a folder ``logs`` that has a run."""
    (tmp_path / "logs").symlink_to(logs)
    return zoo


# ------------------------------------------------------------------------------------------- the table, row by row


@pytest.mark.parametrize(("command", "row"), COMPOSED, ids=name_of)
def test_row_composes(with_run, command: str, row: Row) -> None:
    bits = ("env=BitFlipping-v0",) if "BitFlipping" in row.note else ()
    line = [command, *BASE[command], *bits, *shlex.split(typed(row))]
    done = with_run(*line, "--cfg", "job")
    if row.rlher is None:
        assert done.code == 2
        assert row.note in done.err
        return
    assert done.code == 0, done.err
    for variable in zoo_flags.translate(command, line[1:]).variables:
        assert f"{variable}={os.environ[variable]}" in translated(command, row)
    if not row.rlher:
        assert row.note in done.err
    elif row.kind not in ("file", "run"):
        assert translated(command, row) in f"{done.err} {shlex.join(line)}"


@pytest.mark.parametrize("row", ENJOY, ids=name_of)
def test_row_of_enjoy_plays(with_run, row: Row) -> None:
    base = () if row.kind == "run" else ("--algo", "dqn", "--env", "BitFlipping-v0")
    silent = () if row.kind == "run" or "video" in (row.rlher or "") else ("--no-render",)
    done = with_run("enjoy", *base, *shlex.split(typed(row)), *silent, "--episodes", "1")
    if row.rlher is None:
        assert done.code == 2
        assert row.note in done.err
        return
    assert done.code == 0, done.err
    assert "logs/dqn/BitFlipping-v0_1" in done.err
    assert translated("enjoy", row) in done.err or not row.rlher
    assert Path("videos/enjoy.mp4").exists() == ("video" in (row.rlher or ""))


@pytest.mark.parametrize("row", PLOT, ids=name_of)
def test_row_of_plot_composes(with_run, row: Row) -> None:
    base = () if row.kind == "run" else ("-a", "DQN", "-e", "BitFlipping", "-f", "logs")
    done = with_run("plot", *base, *shlex.split(typed(row)), "--cfg", "job")
    if row.rlher is None:
        assert done.code == 2
        assert row.note in done.err
        return
    assert done.code == 0, done.err
    config = yaml.safe_load(done.out)
    assert config["runs"] == ["logs/dqn/BitFlipping-v0_1"]
    if row.rlher and row.kind != "run":
        key, _, value = translated("plot", row).partition("=")
        assert config[key] == value


@pytest.mark.parametrize("command", ["compare", "report"])
def test_curves_are_selected_for_tables_too(with_run, command: str) -> None:
    done = with_run(command, "--algo", "dqn", "--env", "BitFlipping", "-f", "logs", "--cfg", "job")
    assert yaml.safe_load(done.out)["runs"] == ["logs/dqn/BitFlipping-v0_1"]


def test_flags_about_the_environment_check_it(zoo) -> None:
    done = zoo("check", "--env", "FetchReach-v4", "--gym-packages", "gymnasium_robotics", "--cfg", "job")
    assert yaml.safe_load(done.out)["env"]["modules"] == ["gymnasium_robotics"], done.err


@pytest.mark.parametrize("command", ["evaluate", "export"])
def test_parts_of_a_path_beside_a_named_run_are_not_needed(with_run, command: str) -> None:
    run = "logs/dqn/BitFlipping-v0_1"
    done = with_run(command, "--algo", "dqn", run, "--exp-id", "1", "-f", "logs", "--cfg", "job")
    assert done.code == 0, done.err
    config = yaml.safe_load(done.out)
    assert config["run"] == run
    assert config["logs"] == "logs"


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_script(script: Script) -> None:
    stem = script.name.rpartition(".")[2]
    for line in (
        f"python -m rl_zoo3.{script.name}",
        f"python3 {stem}.py",
        f"python scripts/{stem}.py",
        f"rl_zoo3 {stem}",
    ):
        if script.command is None:
            with pytest.raises(UserError, match="rlher"):
                zoo_flags.split_command(line.split())
        else:
            assert zoo_flags.split_command([*line.split(), "-n", "1"]) == (script.command, ["-n", "1"])


@pytest.mark.parametrize("command", FLAGS)
def test_all_names_of_a_flag_are_translated_alike(command: str) -> None:
    for row in FLAGS[command]:
        first, *others = row.names.split(", ")
        if row.kind in ("run", "file", "pairs") or row.rlher is None or row.rlher.startswith("--"):
            continue
        for name in others:
            assert zoo_flags.translate(command, [name, row.example]).words == (
                zoo_flags.translate(command, [first, row.example]).words
            )


def test_the_page_shows_the_table() -> None:
    assert render(PAGE.read_text()) == PAGE.read_text(), "run python scripts/zoo_table.py"


# --------------------------------------------------------------------------------------------------- whole lines


def test_a_line_of_rl_zoo_trains_and_the_agent_is_found(zoo) -> None:
    words = ("--algo", "dqn", "--env", "BitFlipping-v0", "-n", "60", "--eval-freq=30", "-P", "--env-kwargs", "n_bits:3")
    params = ("-params", "batch_size:16", "policy_kwargs:dict(net_arch=[16])", "learning_starts:30")
    assert zoo(*words, *params, "--seed", "3", "recipe=null", *TINY).code == 0
    config = yaml.safe_load(Path("logs/dqn/BitFlipping-v0_1/config.yaml").read_text())
    assert config["total_timesteps"] == 60
    assert config["eval"]["freq"] == 30
    assert config["env"]["n_bits"] == config["env"]["max_episode_steps"] == 3
    assert config["algo"]["net_arch"] == [16]
    assert config["seed"] == 3
    agent = ("-i", "logs/dqn/BitFlipping-v0_1/best_model.zip")
    assert zoo(*words, *params, *agent, "recipe=null", *TINY).code == 0
    assert zoo("enjoy", "--algo", "dqn", "--env", "BitFlipping-v0", "--no-render").err.count("BitFlipping-v0_2") >= 2
    second = zoo("enjoy", "--algo", "dqn", "--env", "BitFlipping-v0", "--no-render", "--exp-id", "1")
    assert "BitFlipping-v0_1" in second.err
    assert zoo("enjoy", "--algo", "dqn", "--env", "BitFlipping-v0", "--exp-id", "7").code == 2


@pytest.mark.parametrize("flag", ["-optimize", "--optimize", "--optimize-hyperparameters"])
def test_a_study_keeps_its_journal_in_its_own_folder(flag: str) -> None:
    words = ["--algo", "dqn", "--env", "BitFlipping-v0", flag, "--study-name", "demo"]
    found = zoo_flags.to_rlher(["train", *words, "--storage", "logs/demo.log"])
    assert found == ["optimize", *words[:4], "--study-name", "demo"]
    database = ["--storage", "sqlite:///study.db"]
    assert zoo_flags.to_rlher(["train", *words, *database]) == [*found, *database]


def test_a_trial_cannot_be_trained_by_its_number() -> None:
    with pytest.raises(UserError, match=r"best\.yaml"):
        zoo_flags.to_rlher(["train", "--algo", "dqn", "--study-name", "reach", "--trial-id", "3"])


def test_a_yaml_file_of_rl_zoo_is_read(zoo) -> None:
    line = ("python", "-m", "rl_zoo3.train", "--algo", "sac", "--env", "FetchReach-v4", "-conf", "her.yml")
    config = yaml.safe_load(zoo(*line, "-params", "batch_size:64", "--cfg", "job").out)
    assert config["total_timesteps"] == 1_000_000
    assert config["algo"]["net_arch"] == [512, 512, 512]
    assert config["algo"]["batch_size"] == 64
    assert config["her"]["n_sampled_goal"] == 8
    assert config["her"]["goal_selection_strategy"] == "episode"
    first = ("train", "-conf", "her.yml", *line[3:-2], "-params", "batch_size:64", "--cfg", "job")
    assert yaml.safe_load(zoo(*first).out) == config, "the order of flags does not matter"
    as_recipe = zoo(*line[:-2], "--recipe", "her.yml")
    assert as_recipe.code == 2
    assert "--conf-file her.yml" in as_recipe.err
    assert zoo(*line[:-1], "missing.yml").code == 2
    assert zoo(*line[:-3], "--env", "parking-v0", "-conf", "her.yml").code == 2


@pytest.mark.parametrize("entry", ["{1: 2}", "{batch_size: 64, null: 3}", "{true: 1}"])
def test_a_hyperparameter_without_a_name_is_refused(zoo, tmp_path: Path, entry: str) -> None:
    (tmp_path / "odd.yml").write_text(f"FetchReach-v4: {entry}\n")
    done = zoo("train", "--algo", "sac", "--env", "FetchReach-v4", "--conf-file", str(tmp_path / "odd.yml"))
    assert done.code == 2
    assert "odd.yml" in done.err


@pytest.mark.parametrize("algo", SB3_DEFAULTS)
def test_entries_that_a_file_leaves_out_are_as_in_sb3(zoo, algo: str) -> None:
    env = "BitFlipping-v0" if algo in ("dqn", "qrdqn") else "FetchReach-v4"
    Path("short.yml").write_text(f"{env}:\n  n_timesteps: 500\n  gamma: 0.5\n")
    config = yaml.safe_load(zoo("--algo", algo, "--env", env, "-conf", "short.yml", "--cfg", "job").out)
    assert config["total_timesteps"] == 500
    assert not config["normalize"]["enabled"]
    assert config["normalize"]["clip"] == inspect.signature(VecNormalize).parameters["clip_obs"].default
    found = config["algo"]
    assert found["gamma"] == 0.5
    if ALGORITHMS[algo].target_network:
        assert found["target_q_bounds"] is None
    assert found.get("action_noise", 0) == 0
    parameters = inspect.signature(ALGORITHMS[algo].load("sb3")).parameters
    own = {name: each.default for name, each in parameters.items() if name in found and each.default is not None}
    own.pop("gamma")
    assert {name: type(value)(found[name]) for name, value in own.items()} == own
    if "max_grad_norm" in parameters:
        assert found["kwargs"].get("max_grad_norm", found.get("max_grad_norm")) == parameters["max_grad_norm"].default
    assert found["kwargs"].get("policy_kwargs", found)["net_arch"] == DEFAULT_NETWORK[algo]


def test_demonstrations_are_collected_from_the_run_that_flags_name(with_run) -> None:
    words = ["--algo", "dqn", "--env", "BitFlipping-v0", "-f", "logs"]
    assert zoo_flags.to_rlher(["collect", *words]) == ["collect", "logs/dqn/BitFlipping-v0_1"]
    done = with_run("collect", *words, "--load-last-checkpoint", "--episodes", "2")
    assert done.code == 0, done.err
    controller = ["collect", "--env", "FetchReach-v4", "--episodes", "2"]
    assert zoo_flags.to_rlher(controller) == controller


def test_agents_that_come_with_rlher_take_the_place_of_rl_trained_agents() -> None:
    words = ["--algo", "ddpg", "--env", "FetchPush-v4", "-f", "rl-trained-agents", "--no-render"]
    assert zoo_flags.to_rlher(["enjoy", *words]) == ["evaluate", "agent=ddpg-FetchPush-v4"]


def test_a_dry_run_is_not_the_newest_run(tmp_path: Path) -> None:
    for number, dry_run in ((1, "false"), (2, "true")):
        run = tmp_path / f"dqn/BitFlipping-v0_{number}"
        run.mkdir(parents=True)
        (run / "config.yaml").write_text(f"seed: 0\ndry_run: {dry_run}\n")
    words = ["evaluate", "--algo", "dqn", "--env", "BitFlipping-v0", "-f", str(tmp_path)]
    assert zoo_flags.to_rlher(words) == ["evaluate", str(tmp_path / "dqn/BitFlipping-v0_1")]
    assert zoo_flags.to_rlher([*words, "--exp-id", "2"]) == ["evaluate", str(tmp_path / "dqn/BitFlipping-v0_2")]


def test_a_model_of_rl_zoo_is_found_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "logs/tqc/FetchReach-v4_2"
    folder.mkdir(parents=True)
    (folder / "FetchReach-v4.zip").touch()
    (folder / "best_model.zip").touch()
    words = ["enjoy", "--algo", "tqc", "--env", "FetchReach-v4"]
    assert zoo_flags.to_rlher(words) == ["enjoy", "logs/tqc/FetchReach-v4_2/FetchReach-v4.zip", "env=FetchReach-v4"]
    assert "logs/tqc/FetchReach-v4_2/best_model.zip" in zoo_flags.to_rlher([*words, "--load-best"])
    assert "env.modules=[panda_gym]" in zoo_flags.to_rlher([*words, "--gym-packages", "panda_gym"])
    (folder / "config.yaml").touch()
    assert "env.modules=[panda_gym]" not in zoo_flags.to_rlher([*words, "--gym-packages", "panda_gym"])


@pytest.mark.parametrize(
    "line",
    [
        "train algo=sac env=FetchReach-v4 seed=0,1 -m",
        "train --algo sac --env FetchReach-v4 --seed 1 --device cpu --total-timesteps 500",
        "train -i defaults",
        "train --progress=false",
        "evaluate model.zip --env FetchReach-v4 --trust-pickle",
        "enjoy --checkpoint best --episodes 3 logs/x --no-deterministic",
        "optimize --n-trials 3 --sampler random --pruner none algo=sac",
        "plot logs/a logs/b --x wall --output a.png",
        "list envs",
        "enjoy --help",
    ],
)
def test_rlhers_own_lines_stay_as_they_are(line: str, capsys: pytest.CaptureFixture) -> None:
    assert zoo_flags.to_rlher(line.split()) == line.split()
    assert capsys.readouterr().err == ""


def test_help_of_a_line_without_command_is_that_of_train() -> None:
    words = ["--algo", "tqc", "--env", "FetchReach-v4", "--help"]
    assert zoo_flags.to_rlher(words) == ["train", *words]


@pytest.mark.parametrize("line", ["--seed 1", "--hlep", "algo", "-n 5"])
def test_a_line_without_command_needs_an_algorithm_or_environment(zoo, line: str) -> None:
    assert zoo(*line.split()).code == 2


@pytest.mark.parametrize(
    "line",
    ["--algo sac -n", "--algo sac -params", "--algo sac -params policy_kwargs:3", "--algo sac -params noise_type:'x'"],
)
def test_an_invalid_value_is_the_users_mistake(zoo, line: str) -> None:
    assert zoo(*line.split()).code == 2


def test_networks_of_actor_and_critics_differ(zoo) -> None:
    words = ("--algo", "sac", "--env", "BitFlipping-v0", "env.n_bits=3", "env.continuous=true", "-n", "40", *TINY)
    done = zoo(*words, "recipe=null", "-params", "policy_kwargs:dict(net_arch=dict(pi=[8,4],qf=[6]))", "--json")
    assert done.code == 0, done.err
    weights = model_weights(Path("logs/sac/BitFlipping-v0_1/last_model.zip"))
    assert [weights[f"actor.latent_pi.{layer}.bias"] for layer in (0, 2)] == [8, 4]
    assert weights["critic.qf0.0.bias"] == 6


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{norm_obs: true, norm_reward: false}", "normalize.enabled=true normalize.enabled=true"),
        ("\"{'norm_obs': True, 'clip_obs': 8}\"", "normalize.enabled=true normalize.enabled=true normalize.clip=8"),
        ("dict(norm_reward=False)", "normalize.enabled=true"),
        ("{norm_obs: false}", "normalize.enabled=true normalize.enabled=false"),
        ("false", "normalize.enabled=false"),
    ],
)
def test_normalize_may_be_the_arguments_of_vec_normalize(tmp_path: Path, entry: str, words: str) -> None:
    (tmp_path / "her.yml").write_text(f"default:\n  normalize: {entry}\n")
    line = zoo_flags.to_rlher(["train", "--algo", "sac", "-conf", str(tmp_path / "her.yml")])
    assert [word for word in line if word.startswith("normalize.")][-len(words.split()) :] == words.split()


def test_an_old_file_of_her_is_read(zoo) -> None:
    Path("old.yml").write_text(
        "FetchReach-v4:\n  model_class: 'sac'\n  n_sampled_goal: 3\n  goal_selection_strategy: 'episode'\n"
        "  online_sampling: True\n  max_episode_length: 50\n"
    )
    config = yaml.safe_load(zoo("--algo", "sac", "--env", "FetchReach-v4", "-conf", "old.yml", "--cfg", "job").out)
    assert config["algo"]["name"] == "sac"
    assert config["her"]["n_sampled_goal"] == 3
    assert config["her"]["goal_selection_strategy"] == "episode"


def test_a_q_network_has_no_actor_and_critics(zoo) -> None:
    words = ("--algo", "dqn", "--env", "BitFlipping-v0", "env.n_bits=3", "-n", "40", *TINY, "recipe=null")
    done = zoo(*words, "-params", "policy_kwargs:dict(net_arch=dict(pi=[8],qf=[6]))")
    assert done.code == 2
    assert "algo.net_arch" in done.err.splitlines()[-1]


def test_a_python_file_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "her.py").write_text("hyperparams = {}\n")
    with pytest.raises(UserError, match="Python"):
        zoo_flags.to_rlher(["train", "--algo", "sac", "-conf", str(tmp_path / "her.py")])


def test_words_keep_the_order_of_the_entries() -> None:
    entries = ["env_kwargs:dict(n_bits=6)", "policy_kwargs:dict(net_arch=[8])", "replay_buffer_kwargs:dict(n_steps=2)"]
    words = ["env.n_bits=6", "algo.net_arch=[8]", "her.n_steps=2"]
    for step in (1, -1):
        assert zoo_flags.to_rlher(["train", "--algo", "dqn", "-params", *entries[::step]])[3:] == words[::step]


@pytest.mark.parametrize("quote", ["'", '"'])
def test_arguments_may_be_quoted_twice(quote: str) -> None:
    entry = f"policy_kwargs:{quote}dict(net_arch=[32],log_std_init=-3){quote}"
    words = ["algo.net_arch=[32]", "algo.kwargs.policy_kwargs.log_std_init=-3"]
    assert zoo_flags.to_rlher(["train", "--algo", "sac", "-params", entry])[3:] == words


def test_the_time_limit_is_a_key_of_the_environment() -> None:
    line = ["train", "--algo", "sac", "--env-kwargs", "max_episode_steps:20", "reward_type:'dense'"]
    assert zoo_flags.to_rlher(line)[3:] == ["env.max_episode_steps=20", "env.kwargs.reward_type=dense"]


@pytest.mark.parametrize("name", ["activation_fn=nn.LeakyReLU", "optimizer_class=th.optim.AdamW"])
def test_a_class_that_cannot_be_chosen_is_named(name: str) -> None:
    with pytest.raises(UserError, match=name.partition("=")[0]):
        zoo_flags.to_rlher(["train", "--algo", "sac", "-params", f"policy_kwargs:dict({name})"])


def test_a_file_cannot_change_a_run_that_goes_on(tmp_path: Path) -> None:
    (tmp_path / "her.yml").write_text("BitFlipping-v0: {gamma: 0.9}")
    for resume in (["--resume", "some/run"], ["--resume"], ["resume=some/run"]):
        with pytest.raises(UserError, match="resumed"):
            zoo_flags.to_rlher(["train", *resume, "-conf", str(tmp_path / "her.yml")])


def test_python_values_are_read_without_running_them() -> None:
    assert zoo_flags.read_python("dict(a=[1, -2.5], b={'c': None}, d=th.nn.ReLU)") == {
        "a": [1, -2.5],
        "b": {"c": None},
        "d": "nn.ReLU",
    }
    assert zoo_flags.read_python("__import__('os').system('false')") == "__import__('os').system('false')"
    assert zoo_flags.read_python("lin_7.3e-4") == "lin_7.3e-4"
    assert zoo_flags.read_python("auto_0.1") == "auto_0.1"
    for text in ("{[]: 1}", "-" * 20_000 + "1", "(" * 5000):
        assert zoo_flags.read_python(text) == text


def test_hyperparameters_of_gsde_train(zoo) -> None:
    words = ("--algo", "sac", "--env", "BitFlipping-v0", "env.n_bits=3", "env.continuous=true", "-n", "60", *TINY)
    params = ("use_sde:True", "sde_sample_freq:8", "use_sde_at_warmup:True", "learning_rate:lin_1e-3")
    done = zoo(*words, "recipe=null", "-params", *params)
    assert done.code == 0, done.err
    config = yaml.safe_load(Path("logs/sac/BitFlipping-v0_1/config.yaml").read_text())
    assert config["algo"]["use_sde"]
    assert config["algo"]["kwargs"] == {"sde_sample_freq": 8, "use_sde_at_warmup": True}
    assert config["algo"]["learning_rate"] == 1e-3
    assert config["algo"]["learning_rate_schedule"] == "linear"
