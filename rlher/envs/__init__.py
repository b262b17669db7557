"""Environments: registration, the contract of a goal environment and its check, our own bit flipping.

Importing this package imports nothing heavy, so that `rlher list` answers at once; :mod:`rlher.envs.vec` alone needs
torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlher.envs.make import make_env

__all__ = ["make_env"]


def __getattr__(name: str) -> Any:
    if name == "make_env":
        from rlher.envs.make import make_env

        return make_env
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
