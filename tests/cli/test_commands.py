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
LIGHT = {
    "rlher tr": ["--version", "-sc query=bash"],
    "rlher train algo=s": ["-sc query=bash", "train --help", "list", "optimize --cfg job"],
}


@pytest.mark.parametrize("completed", LIGHT)
def test_nothing_slow_is_imported(completed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, slow = LIGHT[completed], HEAVY | {"hydra"} if completed == "rlher tr" else HEAVY
    monkeypatch.setenv("COMP_LINE", completed)
    code = (
        "import sys; from rlher.cli.main import main\n"
        f"for line in {lines!r}:\n    try: main(line.split())\n    except SystemExit: pass\n"
        f"    print(line, {slow!r} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines() == [f"{line} set()" for line in lines]
