"""Train, evaluate, tune, compare and show goal-reaching agents with Hindsight Experience Replay.

The functions of :mod:`rlher.api` are imported on first use, so that ``import rlher`` is fast.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

# Otherwise processes that start as `python -c`, as those of multiprocessing do, would search the current folder for
# modules. It may be somebody else's run folder. A user's own modules get an explicit path, see rlher.core.user_code.
os.environ["PYTHONSAFEPATH"] = "1"

if TYPE_CHECKING:
    from rlher.api import Run, agents, check, compare, load, make_env, plot, report, runs, train
    from rlher.core.errors import RunError, UserError
    from rlher.envs.goal_wrapper import GoalEnvWrapper
    from rlher.her.replay_buffer import HerReplayBuffer
    from rlher.her.strategies import GoalRequest
    from rlher.her.trajectories import Trajectory

__all__ = [
    "GoalEnvWrapper",
    "GoalRequest",
    "HerReplayBuffer",
    "Run",
    "RunError",
    "Trajectory",
    "UserError",
    "agents",
    "check",
    "compare",
    "load",
    "make_env",
    "plot",
    "report",
    "runs",
    "train",
]

__version__ = "0.1.0"

_MODULES = {
    "RunError": "rlher.core.errors",
    "GoalEnvWrapper": "rlher.envs.goal_wrapper",
    "GoalRequest": "rlher.her.strategies",
    "HerReplayBuffer": "rlher.her.replay_buffer",
    "Trajectory": "rlher.her.trajectories",
    "UserError": "rlher.core.errors",
}
"""Modules of the public names that are not in :mod:`rlher.api`."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(_MODULES.get(name, "rlher.api")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
