"""The algorithms: which there are, what they can act in, and how a config becomes a model."""

from rlher.algos.registry import ALGORITHMS, Algorithm

__all__ = ["ALGORITHMS", "Algorithm"]
