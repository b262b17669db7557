"""The algorithms: Stable-Baselines3's classes with a faster update.

``SAC``, ``TD3``, ``DDPG``, ``TQC`` and ``DQN`` need no command line and no run folder. To add an algorithm,
see `rlher.config.algorithms`.
"""

from typing import Any

from rlher.config.algorithms import ALGORITHMS, Algorithm

__all__ = ["ALGORITHMS", "Algorithm"]


def __getattr__(name: str) -> Any:
    """Import an algorithm's class on first use, so that `rlher list` does not wait for torch."""
    for algorithm in ALGORITHMS.values():
        if algorithm.model_class.endswith(f":{name}"):
            return algorithm.load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
