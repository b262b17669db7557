"""The environments of conf/env."""

import subprocess
import sys

from rlher.envs.registration import yaml_names


def test_all_environments_are_listed():
    expected = """BitFlipping-v0 parking-v0 parking-classic HandReach-v3
    FetchReach-v4 FetchPush-v4 FetchSlide-v4 FetchPickAndPlace-v4
    PointMaze_UMaze-v3 PointMaze_Medium-v3 AntMaze_UMaze-v5 PandaReach-v3 PandaPush-v3 PandaPickAndPlace-v3"""
    assert set(expected.split()) <= set(yaml_names())
    assert "any" not in yaml_names()


def test_listing_imports_no_simulator():
    code = (
        "import sys; from rlher.envs.registration import list_envs; list_envs();"
        "print([m for m in ('torch', 'stable_baselines3', 'mujoco', 'highway_env') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
