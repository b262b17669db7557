"""An installed package adds an algorithm, an environment with its recipe, and a command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = '''
"""An algorithm and an environment."""
from dataclasses import dataclass
from pathlib import Path

from rlher.config.algorithms import Algorithm, DDPGConfig
from rlher.config.key import experiment_key, section

@dataclass
class MineConfig(DDPGConfig):
    """An algorithm of a plugin."""
    tau: float = experiment_key(0.25, "a default of its own", low=0, high=1)

@dataclass
class ToneConfig:
    loud: bool = experiment_key(False, "greet loudly")
@dataclass
class GreetConfig:
    tone: ToneConfig = section(ToneConfig, "tone")

def greet(config: GreetConfig, command_line: str) -> int:
    """Greet."""
    print("greetings")
    return 0

COMMANDS = {"greet": greet}
ALGORITHMS = {"mine": Algorithm(MineConfig, "rlher.algos.td3:DDPG", "stable_baselines3:DDPG", "continuous")}
CONF = Path(__file__).parent / "conf"
'''
FILES = {
    "my_plugin.py": PLUGIN,
    "my_plugin-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: my-plugin\nVersion: 1.0\n",
    "my_plugin-1.0.dist-info/entry_points.txt": "[rlher.plugins]\nmine = my_plugin\n",
    "conf/env/near.yaml": "id: FetchReach-v4\ndescription: of a plugin\nactions: continuous\nmax_episode_steps: 10\n",
    "conf/recipe/mine-near.yaml": "algo: {batch_size: 32}\n",
}


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """Install a plugin into a folder, as pip does."""
    for name, text in FILES.items():
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(text)
    return tmp_path / "site"


def run(plugin: Path, *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "rlher", *words]
    environment = os.environ | {"PYTHONPATH": str(plugin)}
    return subprocess.run(command, cwd=plugin.parent, env=environment, capture_output=True, text=True, timeout=120)


def test_plugin_adds_algorithm_environment_and_command(plugin: Path) -> None:
    listed = run(plugin, "list").stdout
    assert [text for text in ("An algorithm of a plugin", "near") if text not in listed] == []
    assert run(plugin, "greet").stdout == "greetings\n"
    assert "tone.loud" in run(plugin, "greet", "--help").stdout
    words = ("total_timesteps=60", "eval.episodes=1", "eval.final_episodes=2", "tensorboard=false", "threads=1")
    trained = run(plugin, "train", "algo=mine", "env=near", *words)
    assert trained.returncode == 0, trained.stderr
    config = (plugin.parent / "logs/mine/FetchReach-v4_1/config.yaml").read_text()
    assert [text for text in ("tau: 0.25", "batch_size: 32") if text not in config] == []


@pytest.mark.parametrize(
    "text", ["import nothing_of_the_name", "raise SystemExit(3)", "ALGORITHMS = ['x']", "COMMANDS = {'greet': len}"]
)
def test_broken_plugin_is_left_out(plugin: Path, text: str) -> None:
    plugin.joinpath("my_plugin.py").write_text(text)
    listed = run(plugin, "list", "algos")
    assert (listed.returncode, "my_plugin" in listed.stderr) == (0, True), listed.stderr
