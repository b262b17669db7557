"""The documentation's example does what it says."""

import re
from pathlib import Path

import gymnasium as gym
import pytest

from rlher.her import HerReplayBuffer

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("text", ["README.md", "docs/replay_buffer.md"])
def test_the_example_runs(text: str):
    pytest.importorskip("gymnasium_robotics")
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / text).read_text(), flags=re.DOTALL)
    assert "learn(5_000)" in code
    names: dict = {}
    exec(code.replace("learn(5_000)", "learn(120)"), names)
    assert isinstance(names["model"].replay_buffer, HerReplayBuffer)
    assert names["model"].replay_buffer.n_transitions == 120
    assert isinstance(names["env"], gym.Env)
