"""Discovery of commands, and modules that they must not import."""

import json
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path

import pytest

from rlher.cli.commands import command_names, load_command

CONF = Path(__file__).parents[2] / "conf"


@pytest.mark.parametrize("name", command_names())
def test_command_is_a_module_and_a_yaml(name: str) -> None:
    command = load_command(name)
    assert is_dataclass(command.schema)
    assert command.summary
    assert f"/schema/{name}@_here_" in (CONF / f"{name}.yaml").read_text()


def test_lists(rlher) -> None:
    found = json.loads(rlher("list", "--json").out)
    for kind, name, listed in (
        ("algos", "algo", "tqc"),
        ("envs", "env", "parking-v0"),
        ("strategies", "strategy", "final"),
    ):
        assert listed in {row[name] for row in found[kind]}
    assert all(row["description"] for name in ("algos", "envs", "strategies") for row in found[name])
    assert {"td3-PointMaze_UMaze-v3"} <= {row["agent"] for row in found["agents"]}
    assert all(row["env"] and row["success"] and row["steps"] for row in found["agents"])
    assert list(json.loads(rlher("list", "envs", "--json").out)) == ["envs"]
    assert rlher("list", "envs").out.startswith("env ")


HEAVY = {"torch", "stable_baselines3", "sb3_contrib", "optuna", "pandas", "matplotlib"}
LIGHT = [
    ["train", "--help"],
    ["list"],
    ["optimize", "--cfg", "job"],
    ["-sc", "query=bash"],
]


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_nothing_slow_is_imported(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", "rlher train algo=s")
    code = (
        "import sys; from rlher.cli.main import main\n"
        f"try: main({words!r})\nexcept SystemExit: pass\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]"
