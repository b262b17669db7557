"""Exported agents act as the run's agents, without rlher, and the model card has the measured numbers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest
import yaml
from stable_baselines3 import SAC
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv
from torch.nn import Tanh

from rlher.algos import ALGORITHMS
from rlher.config.command_configs import PlayConfig
from rlher.envs.make import make_env
from rlher.evaluation.models import choose_model, make_policy
from rlher.export import exporter
from rlher.run import lookup
from tests.conftest import TINY

BITS = ("env=BitFlipping-v0", "env.kwargs.n_bits=4", "recipe=null", *TINY, "total_timesteps=100")

WITHOUT_RLHER = """
import importlib, json, runpy, sys
from pathlib import Path
import numpy as np

for folder, zip_file in zip(map(Path, sys.argv[1::2]), sys.argv[2::2]):
    sys.path.insert(0, str(folder))
    sys.argv = [str(folder / "play.py"), "--seed", "1000000"]
    script = runpy.run_path(sys.argv[0], run_name="__main__")
    agent = json.loads((folder / "agent.json").read_text())
    env = script["make_env"](agent)
    module, _, name = agent["algorithm"].partition(":")
    loaded = getattr(importlib.import_module(module), name).load(folder / zip_file)
    with np.load(folder / "observations.npz") as stored:
        rows = [{key: stored[key][row] for key in stored} for row in range(len(stored["observation"]))]
    plain = lambda row: loaded.predict(row, deterministic=True)[0]
    for policy in (script["load_policy"](folder, agent, env), plain):
        print(json.dumps([np.asarray(policy(row)).tolist() for row in rows]))
    print(json.dumps(loaded.num_timesteps))
assert "rlher" not in sys.modules
"""
"""Play where rlher cannot be imported, and act with the model loaded in both ways: four lines per agent."""


def exported(rlher, *words: str, to: str = "export") -> tuple[Path, Path]:
    """Train and export an agent; return the run folder and the export folder."""
    done = rlher("train", *words, "--json")
    assert done.code == 0, done.err
    run = Path(json.loads(done.out)["run"])
    done = rlher("export", str(run), "--output", to)
    assert done.code == 0, done.err
    assert done.out == f"{to}\n"
    return run, Path(to).absolute()


def require_same_actions_without_rlher(*agents: tuple[Path, Path], rows: int = 20) -> list[tuple[str, int]]:
    """Compare actions of exported models with those of their runs, on random observations.

    All play in one process, in which importing rlher fails.

    :return: for each agent, the script's output and the model's number of steps.
    """
    expected = [_actions_with_rlher(run, folder, rows) for run, folder in agents]
    stub = Path("hidden/rlher").absolute()
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text("raise ImportError('rlher is not installed here')\n")
    words = [word for _, folder in agents for word in (str(folder), next(folder.glob("*.zip")).name)]
    command = [sys.executable, "-c", WITHOUT_RLHER, *words]
    environment = {**os.environ, "PYTHONPATH": str(stub.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    assert done.returncode == 0, done.stderr
    lines, results = iter(done.stdout.splitlines()), []
    for (run, _), actions in zip(agents, expected, strict=True):
        played, built, loaded, steps = next(lines), *(json.loads(next(lines)) for _ in range(3))
        np.testing.assert_allclose(built, actions, atol=1e-5, err_msg=str(run))
        np.testing.assert_allclose(loaded, actions, atol=1e-5, err_msg=str(run))
        assert len({json.dumps(action) for action in built}) > 1, "a constant policy would prove nothing"
        results.append((played, steps))
    return results


def _actions_with_rlher(run: Path, folder: Path, rows: int) -> list[np.ndarray]:
    """Return a run's actions, which are those of its model file, loaded with rlher's class or SB3's."""
    chosen = choose_model(PlayConfig(run=str(run)))
    env = make_env(chosen.run.config.env)
    policy, space = make_policy(chosen.load(env)), env.observation_space
    space.seed(0)
    samples = [space.sample() for _ in range(rows)]
    observations = {key: np.stack([row[key] for row in samples]).clip(-3, 3) for key in space.spaces}
    np.savez(folder / "observations.npz", **observations)
    actions = [policy({key: value[row] for key, value in observations.items()}) for row in range(rows)]
    algo = lookup.open_run(str(run), "logs").config.algo
    if not getattr(algo, "layer_norm_critics", False):  # which SB3 lacks
        for model_class in (ALGORITHMS[algo.name].load(), resolve_name(ALGORITHMS[algo.name].sb3_class)):
            loaded = model_class.load(run / "best_model.zip", DummyVecEnv([lambda: env]))
            np.testing.assert_allclose(loaded.predict(observations, deterministic=True)[0], actions, atol=1e-5)
    return actions


VARIANTS = {
    "unscaled": ("algo=sac", *BITS, "env.kwargs.continuous=true", "normalize.enabled=false"),
    "layer_norm": ("algo=tqc", *BITS, "env.kwargs.continuous=true", "algo.layer_norm_critics=true"),
    "maze": ("algo=td3", "env=PointMaze_UMaze-v3", "recipe=null", *TINY, "total_timesteps=100", "env.action_repeat=5"),
    "relay": ("algo=ddpg", "env=FetchPush-v4", "recipe=null", *TINY, "total_timesteps=100", "env.relay.enabled=true"),
}


@pytest.mark.slow
def test_agents_play_without_rlher(rlher) -> None:
    """Those of every algorithm, and those with options that SB3 lacks."""
    trained = {}
    for name, algo in ALGORITHMS.items():
        kind = f"env.kwargs.continuous={algo.actions == 'continuous'}".lower()
        trained[name] = (f"algo={name}", *BITS, kind, "algo.learning_rate_schedule=linear")
    agents = {name: exported(rlher, *words, to=name) for name, words in (trained | VARIANTS).items()}
    results = require_same_actions_without_rlher(*agents.values(), rows=200)
    for (run, _), (played, steps) in zip(agents.values(), results, strict=True):
        assert played.startswith("success: ")
        assert steps == json.loads((run / "result.json").read_text())["best"]["timesteps"]
    described = json.loads((agents["maze"][1] / "agent.json").read_text())
    assert described["wrappers"] == [["wrappers:ActionRepeat", {"times": 5, "last_reward": False}]]
    _, folder = agents["layer_norm"]
    assert exporter.UNTRAINED_CRITICS in (folder / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "env"), [("ddpg", "gymnasium_robotics:FetchReach-v4"), ("sac", "parking-classic")])
def test_registered_environments_are_made_with_the_same_options(rlher, algo: str, env: str) -> None:
    limit = ("env.max_episode_steps=7", "total_timesteps=60", "eval.freq=30")
    run, folder = exported(rlher, f"algo={algo}", f"env={env}", "recipe=null", *TINY, *limit)
    ((played, _),) = require_same_actions_without_rlher((run, folder))
    assert played.endswith("7 steps")
    kwargs = json.loads((folder / "agent.json").read_text())["kwargs"]
    assert kwargs.get("config", {}).get("add_walls", True) == (env != "parking-classic")
    requirements = (folder / "requirements.txt").read_text()
    assert ("gymnasium-robotics==" if algo == "ddpg" else "highway-env==") in requirements
    assert "rlher" not in requirements


def test_a_users_environment_is_reported_as_not_exported(rlher) -> None:
    words = ("algo=sac", "env=CarToGoal-v0", "env.modules=[goal_mountain_car]", "env.max_episode_steps=9")
    _, folder = exported(rlher, *words, *TINY, "total_timesteps=60")
    card = (folder / "README.md").read_text()
    assert "`goal_mountain_car`" in card
    assert "`GoalEnvWrapper`" in card
    assert json.loads((folder / "agent.json").read_text())["modules"] == ["goal_mountain_car"]


def test_the_own_export_folder_is_replaced(rlher, run: Path) -> None:
    planted = run / "export/bit_flipping/__init__.py"
    planted.parent.mkdir(parents=True)
    planted.touch()
    assert rlher("export", str(run)).code == 0
    assert not planted.exists()
    assert (run / "export/play.py").exists()


@pytest.mark.slow
def test_the_script_plays_with_the_success_of_evaluate_and_imports_no_earlier_file(rlher) -> None:
    Path("export").mkdir()
    Path("export/torch.py").write_text("open('pwned', 'w')")
    words = ("env=BitFlipping-v0", "env.kwargs.n_bits=5", "recipe=null", "total_timesteps=1500", "eval.freq=1500")
    run, _ = exported(rlher, "algo=dqn", *words)
    done = rlher("export", str(run), "--output", "export")
    measured = json.loads(rlher("evaluate", str(run), "--episodes", "40", "--json").out)
    command = done.err.splitlines()[-1].partition(": ")[2].split()
    shell = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    options = ("--episodes", "40", "--seed", "1000000")
    played = subprocess.run([sys.executable, *command[1:], *options], capture_output=True, text=True, env=shell)
    *episodes, rate = played.stdout.splitlines()
    assert rate == f"success rate: {measured['success_rate']:.1%}"
    assert len(episodes) == 40
    assert measured["success_rate"] > 0, "a policy that never succeeds would prove little"
    assert not Path("pwned").exists()


def test_the_card_has_the_measured_numbers(rlher, run: Path) -> None:
    run = Path(shutil.copytree(run, "run"))
    assert rlher("export", str(run), "--output", "export").code == 0
    result = json.loads((run / "result.json").read_text())["best"]
    _, front, body = Path("export/README.md").read_text().split("---\n", 2)
    matter = yaml.safe_load(front)
    assert matter["library_name"] == "stable-baselines3"
    assert {"reinforcement-learning", "BitFlipping-v0"} <= set(matter["tags"])
    (measured,) = matter["model-index"][0]["results"]
    metrics = {metric["type"]: metric["value"] for metric in measured["metrics"]}
    assert metrics == {name: result[name] for name in ("success_rate", "mean_reward")}
    assert f"[{result['success_rate_low']:.1%}, {result['success_rate_high']:.1%}]" in body
    assert "4 episodes" in body
    assert "one training run (seed 0)" in body
    assert f"trained for {result['timesteps']:,} environment steps" in body
    assert "rlher train algo=dqn" in body
    assert "stable-baselines3 2." in body
    settings = yaml.safe_load(body.split("```yaml\n")[1].split("```")[0])
    assert settings["env"]["kwargs"]["n_bits"] == 6
    assert Path("export/replay.mp4").stat().st_size > 500
    assert "replay.mp4" in body

    other = rlher("export", str(run), "--model", "40", "--output", "other")
    assert other.code == 0, other.err
    assert "4 episodes" in other.err, "it is evaluated now, because the run has no final evaluation of it"
    assert "trained for 40 environment steps" in Path("other/README.md").read_text()


def test_the_plain_model_has_the_settings_of_the_run(rlher) -> None:
    source = "from rlher.algos import SAC\nclass Own(SAC):\n    def __init__(self, *args, delta, **kwargs):\n"
    Path("own_sac.py").write_text(source + "        super().__init__(*args, **kwargs)\n")
    words = ("algo=own_sac:Own", *BITS, "env.kwargs.continuous=true", "algo.ent_coef=auto_0.3", "algo.activation=tanh")
    words += ("algo.kwargs.delta=0.5", "algo.action_noise=0.1", "algo.learning_rate_schedule=linear")
    _, folder = exported(rlher, *words, "algo.policy_kwargs={use_expln: true}")
    model = SAC.load(next(folder.glob("*.zip")))
    assert (model.ent_coef, model.batch_size, model.learning_rate(1)) == ("auto_0.3", 16, 0.001)
    assert isinstance(model.action_noise, NormalActionNoise)
    assert model.policy_kwargs.pop("features_extractor_class").__module__ == "observation_normalizer"
    assert model.policy_kwargs == {
        "features_extractor_kwargs": {"clip": 5.0, "goal_parts": 1},
        "net_arch": [16],
        "n_critics": 2,
        "activation_fn": Tanh,
        "use_expln": True,
        "use_sde": False,
    }
