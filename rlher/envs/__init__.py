"""Goal environments: registration, wrappers, vectorisation and the contract check.

Importing this package imports neither gymnasium nor torch, so that `rlher list` answers at once; only
:mod:`rlher.envs.vec` and modules that build on it need torch.
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
