"""Groups: keys whose values are names, such as ``algo=sac`` and ``env=FetchReach-v4``, and the names they take."""

from rlher.config.algorithms import ALGORITHMS
from rlher.config.conf_files import conf_files
from rlher.config.her import HER_PRESETS
from rlher.her import STRATEGIES

GROUPS = ("algo", "env", "her", "recipe")
"""Keys that take the name of a set of values, with ``<group>=<name>`` or ``--<group> <name>``."""


def names_in_group(group: str) -> list[str]:
    """Return the names that ``<group>=`` takes."""
    if group in ("algo", "her"):
        return sorted(ALGORITHMS if group == "algo" else [*HER_PRESETS, *STRATEGIES])
    return list(conf_files(group))
