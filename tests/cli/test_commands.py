"""The command `list`, and modules that commands must not import."""

import json
import subprocess
import sys

import pytest


def test_lists(rlher) -> None:
    found = json.loads(rlher("list", "--json").out)
    assert "tqc" in {row["algo"] for row in found["algos"]}
    assert "parking-v0" in {row["env"] for row in found["envs"]}
    assert "final" in {row["strategy"] for row in found["strategies"]}
    assert all(row["description"] for name in ("algos", "envs", "strategies") for row in found[name])
    assert {"td3-PointMaze_UMaze-v3"} <= {row["agent"] for row in found["agents"]}
    assert all(row["env"] and row["success"] and row["steps"] for row in found["agents"])
    assert list(json.loads(rlher("list", "envs", "--json").out)) == ["envs"]
    assert rlher("list", "envs").out.startswith("env ")


HEAVY = {"torch", "stable_baselines3", "sb3_contrib", "optuna", "pandas", "matplotlib", "mujoco", "highway_env"}
LIGHT = [["train", "--help"], ["list"], ["optimize", "--cfg", "job"], ["-sc", "query=bash"], ["--version"]]


@pytest.mark.parametrize("completed", ["rlher train algo=s", "rlher tr"])
@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_nothing_slow_is_imported(words: list[str], completed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", completed)
    slow = HEAVY
    if words == ["--version"] or (words[0] == "-sc" and completed == "rlher tr"):
        slow = HEAVY | {"hydra"}
    code = (
        "import sys; from rlher.cli.main import main\n"
        f"try: main({words!r})\nexcept SystemExit: pass\n"
        f"print(sorted({slow!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]"
