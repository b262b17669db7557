"""One result of the goal-env check."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """A sentence and how bad it is.

    :param level: ``"ok"``; ``"warning"``: training works, but slower or less surely; ``"error"``: it would
        not.
    :param sentence: for a person.
    :param fault: whether the environment broke down, rather than being declared or written for something
        else.
    """

    level: Literal["ok", "warning", "error"]
    sentence: str
    fault: bool = False
