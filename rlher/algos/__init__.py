"""The algorithms: which there are, what they can act in, and how a config becomes a model.

``SAC``, ``TD3``, ``DDPG``, ``TQC``, ``DQN`` and ``QRDQN`` are Stable-Baselines3's classes with our own update
step; they need nothing else of rlher.
"""

from typing import Any

from rlher.algos.registry import ALGORITHMS, Algorithm

__all__ = ["ALGORITHMS", "Algorithm"]


def __getattr__(name: str) -> Any:
    """Import a class of that name when it is asked for: `rlher list` must not wait for torch."""
    for algorithm in ALGORITHMS.values():
        if algorithm.path.endswith(f":{name}"):
            return algorithm.load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
