"""Hindsight experience replay, usable with plain Stable-Baselines3: no Hydra, no command line, no run folder.

``HerReplayBuffer`` is imported on first use, so that the names of strategies can be read without importing
NumPy or torch.
"""

from typing import TYPE_CHECKING, Any

from rlher.her.names import PRIORITIES, RELABEL_DONE, STRATEGIES

if TYPE_CHECKING:
    from rlher.her.replay_buffer import HerReplayBuffer
    from rlher.her.samples import HerReplayBufferSamples
    from rlher.her.strategies import GoalRequest
    from rlher.her.trajectories import Trajectory

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
    if name in ("GoalRequest", "HerReplayBuffer", "HerReplayBufferSamples", "Trajectory"):
        from rlher.her import replay_buffer

        return getattr(replay_buffer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
