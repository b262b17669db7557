"""Hindsight experience replay, usable with plain Stable-Baselines3: no Hydra, no command line, no run folder.

Classes that need torch or Gymnasium are imported on first use. So the command line can read the names of strategies
without waiting for these imports.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rlher.her.priorities import PRIORITIES
from rlher.her.reward_and_done import RELABEL_DONE
from rlher.her.strategies import STRATEGIES, GoalRequest

if TYPE_CHECKING:
    from rlher.her.replay_buffer import HerReplayBuffer, HerReplayBufferSamples
    from rlher.her.trajectories import Trajectory

_MODULES = {"HerReplayBuffer": "replay_buffer", "HerReplayBufferSamples": "replay_buffer", "Trajectory": "trajectories"}
"""Modules of the classes that are imported on first use."""

__all__ = [
    "PRIORITIES",
    "RELABEL_DONE",
    "STRATEGIES",
    "GoalRequest",
    "HerReplayBuffer",
    "HerReplayBufferSamples",
    "Trajectory",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"rlher.her.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
