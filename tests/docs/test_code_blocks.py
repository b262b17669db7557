"""The Python and shell blocks of the documentation work as they stand."""

import re
import shutil
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from stable_baselines3 import SAC

from rlher import HerReplayBuffer, make_env
from tests.conftest import TINY
from tests.support.documents import NAMES, ROOT, blocks, commands, shortened
from tests.support.tiers import slow_except

PAGES = [name for name in NAMES if blocks(name, "python")]
FAST_PAGES = ["README.md", "docs/replay_buffer.md"]
COMMANDS = [(name, command) for name in NAMES for command in commands(name)]


@pytest.mark.parametrize("name", slow_except(FAST_PAGES, PAGES))
def test_python_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict = {"__file__": str(tmp_path / "my_code.py")}
    if name == "docs/guide/coming_from.md":
        SAC("MultiInputPolicy", make_env("FetchReach-v4"), policy_kwargs={"net_arch": [8]}).save("model.zip")
    for code in blocks(name, "python"):
        exec(shortened(code), names)
    if model := names.get("model"):
        assert isinstance(model.replay_buffer, HerReplayBuffer)
        assert model.replay_buffer.n_transitions == 120


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the files that the commands of the documentation name."""
    description, *_ = blocks("docs/guide/environments.md", "yaml")
    (tmp_path / "my_env.yaml").write_text(description)
    shutil.copy(ROOT / "hyperparams/sac-FetchReach-v4.yaml", tmp_path / "my_recipe.yaml")
    (tmp_path / "my_code.py").write_text("\n\n".join(blocks("docs/guide/extend.md", "python")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=lambda value: value if isinstance(value, str) else "")
def test_commands_are_valid(name: str, command: list[str], workspace: Path, rlher) -> None:
    if command[0] == "resume":
        done = rlher(*command)
        assert done.code == 2  # no such run, and nothing else wrong
        assert "logs" in done.err
        return
    if command[0] in ("list", "--version") or "--help-all" in command:
        assert rlher(*command).code == 0
        return
    single = [re.sub(r"=range\(\d+\)$", "=0", word) for word in command]
    once = [re.sub(r"^(\w+=\w+),[\w,]+$", r"\1", word) for word in single if word not in ("-m", "--cfg", "job")]
    done = rlher(*once, "--cfg", "job")
    if "eval.frequency=500" in command:
        assert done.code == 2
    else:
        assert done.code == 0, done.err
        assert done.out


def test_goal_wrapper_example_trains(workspace: Path, rlher, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks("docs/guide/environments.md", "python")
    (workspace / "my_goals.py").write_text(code)
    monkeypatch.syspath_prepend(str(workspace))
    gym.registry.pop("CarToGoal-v0", None)
    sys.modules.pop("my_goals", None)
    done = rlher("check", "env=CarToGoal-v0", "env.modules=[my_goals]")
    assert done.code == 0, done.out + done.err


@pytest.mark.slow
def test_benchmark_table_is_what_compare_prints(rlher) -> None:
    rows = re.findall(r"^\| [\w-]+-v\d \|.*|^\| parking-classic \|.*", (ROOT / "docs/benchmarks.md").read_text(), re.M)
    agents = {row.split(" | ")[1] for row in rows if row.count("|") == 11}
    done = rlher("compare", *(str(ROOT / "logs/benchmark" / agent) for agent in sorted(agents)), "--format", "markdown")
    assert done.code == 0
    assert len(agents) >= 10
    assert [row for row in rows if row not in done.out] == []


@pytest.mark.parametrize("recipe", blocks("docs/guide/hard_tasks.md", "yaml"))
def test_recipes_of_the_guide_train(recipe: str, workspace: Path, rlher) -> None:
    (workspace / "my_recipe.yaml").write_text(recipe)
    words = ("train", "algo=ddpg", "env=BitFlipping-v0", "env.kwargs.continuous=true", "recipe=my_recipe.yaml")
    assert rlher(*words, *TINY, "n_envs=1", "total_timesteps=200").code == 0
