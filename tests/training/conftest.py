"""Actions at a step of a run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rlher.envs.bit_flipping import BitFlippingEnv


@pytest.fixture
def at_env_steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, dict[int, Callable[[], object]]], None]:
    """Call functions at steps of BitFlipping, in training and evaluation, counted while the run folder exists."""

    def plan(folder: Path, actions_by_step: dict[int, Callable[[], object]]) -> None:
        step, taken = BitFlippingEnv.step, []

        def stepped(self, action):
            if folder.exists():
                taken.append(None)
                actions_by_step.get(len(taken), int)()
            return step(self, action)

        monkeypatch.setattr(BitFlippingEnv, "step", stepped)

    return plan
