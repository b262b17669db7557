"""Environments: registration, the contract of a goal environment and its check, our own bit flipping.

Importing this package imports neither torch nor Stable-Baselines3; :mod:`rlher.envs.vec` does.
"""

from rlher.envs.make import make_env

__all__ = ["make_env"]
