"""Values of config keys: names of strategies, priorities and done rules. Importing them does not import NumPy."""

RELABEL_DONE = ("auto", "keep", "success", "never")
"""Values of ``relabel_done``: how ``done`` of a virtual transition is decided, see :mod:`rlher.her.done_rule`."""

ORIGINAL = "original"
"""Name under which a mix keeps the goal as collected."""

DEFAULT_MIX = {"future": 0.6, "episode": 0.1, "random": 0.1, ORIGINAL: 0.2}
"""Weights of the strategy ``mix``, where none are given."""


STRATEGIES = {
    "future": "rlher.her.strategies:future",
    "final": "rlher.her.strategies:final",
    "episode": "rlher.her.strategies:episode",
    "random": "rlher.her.strategies:random",
    "geometric": "rlher.her.strategies:geometric",
    "desired": "rlher.her.strategies:desired",
    "mix": "rlher.her.strategies:mix",
}
"""Functions by the value of ``goal_selection_strategy`` (section 4.5 of the HER paper, arXiv:1707.01495)."""

PRIORITIES = {
    "uniform": "rlher.her.priorities:Priority",
    "energy": "rlher.her.priorities:Energy",
    "td_error": "rlher.her.priorities:TDError",
}
"""Classes by the value of ``priority``."""
