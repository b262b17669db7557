"""Actions at a step of a run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.training.trainer import RunCallback


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], object]], None]:
    """Do something once in the middle of the first step from a given one on."""

    def plan(steps: int, act: Callable[[], object]) -> None:
        before, done = RunCallback._on_step, []

        def on_step(self: RunCallback) -> bool:
            if self.model.num_timesteps >= steps and not done:
                done.append(True)
                act()
            return before(self)

        monkeypatch.setattr(RunCallback, "_on_step", on_step)

    return plan


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
