"""The choices of hindsight by name, for those who must not wait for NumPy: the command line's help and completion."""

from enum import Enum

RELABEL_DONE = ("auto", "keep", "success", "never")
"""How ``done`` of a virtual transition is decided, see :mod:`rlher.her.done_rule`."""

LOST = "lost_step"
"""Key of ``info`` set for a step in which the environment's process died: its transition is not stored."""


class GoalSelectionStrategy(Enum):
    """Where the goals of virtual transitions come from (section 4.5 of the HER paper, arXiv:1707.01495)."""

    FUTURE = "future"
    FINAL = "final"
    EPISODE = "episode"
    RANDOM = "random"
    GEOMETRIC = "geometric"
    MIX = "mix"


KEY_TO_GOAL_STRATEGY = {strategy.value: strategy for strategy in GoalSelectionStrategy}
