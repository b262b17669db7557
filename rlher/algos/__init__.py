"""The algorithms: Stable-Baselines3's classes with a faster update.

``SAC``, ``TD3``, ``DDPG``, ``TQC`` and ``DQN`` need no command line and no run folder. To add an algorithm,
see `rlher.config.algorithms`.
"""

from typing import TYPE_CHECKING, Any

from rlher.config.algorithms import ALGORITHMS, Algorithm

if TYPE_CHECKING:
    from rlher.algos.dqn import DQN
    from rlher.algos.sac import SAC
    from rlher.algos.td3 import DDPG, TD3
    from rlher.algos.tqc import TQC

__all__ = ["ALGORITHMS", "DDPG", "DQN", "SAC", "TD3", "TQC", "Algorithm"]


def __getattr__(name: str) -> Any:
    """Import an algorithm's class on first use, so that `rlher list` does not wait for torch."""
    if name in __all__:
        return ALGORITHMS[name.lower()].load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
