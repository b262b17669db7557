"""An installed package adds an algorithm, an environment with its recipe, and a command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = '''
from dataclasses import dataclass, field
from pathlib import Path

from rlher.cli.commands import Command
from rlher.config.algorithms import Algorithm, DDPGConfig
from rlher.config.key import param, with_default

@dataclass
class MineConfig(DDPGConfig):
    """An algorithm of a plugin."""
    tau: float = with_default(DDPGConfig, "tau", 0.25)
    net_arch: list[int] = with_default(DDPGConfig, "net_arch", [32])
    delta: int = param(1, "an argument of its own")

@dataclass
class ToneConfig:
    loud: bool = param(False, "greet loudly")

@dataclass
class GreetConfig:
    tone: ToneConfig = field(default_factory=ToneConfig)

def greet(config: GreetConfig) -> int:
    """Greet."""
    print("greetings")
    return 0

COMMANDS = {"greet": Command("greet", greet, GreetConfig)}
ALGORITHMS = {
    "mine": Algorithm(MineConfig, "my_models:Mine", "my_models:Plain", "continuous"),
    "unused": Algorithm(MineConfig, "rlher.algos:DDPG", "my_models:Plain", "continuous"),
}
CONF = Path(__file__).parent / "conf"
'''
MODELS = """
import stable_baselines3
import rlher.algos

class Mine(rlher.algos.DDPG):
    def __init__(self, *args, delta=1, **kwargs):
        print("delta", delta)
        super().__init__(*args, **kwargs)

class Plain(stable_baselines3.DDPG):
    pass
"""
FILES = {
    "my_plugin.py": PLUGIN,
    "my_models.py": MODELS,
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


def run(plugin: Path, *lines: str, first: str = "sys") -> tuple[list[str], str]:
    """Run command lines in one process; return what each prints, with its exit code at the end, and stderr.

    :param first: module to import before rlher.
    """
    code = "sys, rlher.cli.main\nfor line in sys.argv[1:]: print(rlher.cli.main.main(line.split()), end='\\0')"
    words = [sys.executable, "-c", f"import {first}, {code}", *lines]
    environment = os.environ | {"PYTHONPATH": str(plugin)}
    done = subprocess.run(words, cwd=plugin.parent, env=environment, capture_output=True, text=True, timeout=120)
    return done.stdout.split("\0")[:-1], done.stderr


@pytest.mark.slow
def test_plugin_adds_algorithm_environment_and_command(plugin: Path) -> None:
    words = "env=near total_timesteps=60 eval.freq=60 eval.episodes=1 eval.final_episodes=2 tensorboard=false"
    lines = ("list", "greet", "greet --help-all", f"train algo=mine {words} threads=1 algo.delta=2")
    lines += (f"train algo=unused {words}", "export logs/mine/FetchReach-v4_1 --output export")
    (listed, greeted, keys, trained, unused, exported), errors = run(plugin, *lines, first="my_plugin")
    assert [text for text in ("An algorithm of a plugin", "near") if text not in listed] == []
    assert (greeted, "tone.loud" in keys) == ("greetings\n0", True)
    assert (trained[-2:], "delta 2" in trained, exported[-2:]) == ("\n0", True, "\n0"), errors
    assert unused == "2", "its class has no delta"
    assert "my_models:Plain" in Path(plugin.parent, "export/agent.json").read_text()
    config = (plugin.parent / "logs/mine/FetchReach-v4_1/config.yaml").read_text()
    assert [text for text in ("tau: 0.25", "batch_size: 32") if text not in config] == []


@pytest.mark.parametrize("text", ["import no_such", "raise SystemExit(3)", "ALGORITHMS = ['x']"])
def test_broken_plugin_is_left_out(plugin: Path, text: str) -> None:
    plugin.joinpath("my_plugin.py").write_text(text)
    (listed,), errors = run(plugin, "list algos")
    assert (listed[-2:], "my_plugin" in errors) == ("\n0", True), errors
