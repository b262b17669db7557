"""One result of the contract check."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """A message and its level.

    :param level: ``"ok"``; ``"warning"``: training works, but may be slower or less reliable; ``"error"``: training is
        refused.
    :param message: for the user.
    :param check: name of the check it comes from, a key of ``rlher.envs.contract.checker.CHECKS``, ``"interface"``, or
        ``"fault"``: the environment failed while it was checked.
    """

    level: Level
    message: str
    check: str = ""
