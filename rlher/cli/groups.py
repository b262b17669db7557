"""Groups: keys whose values are names, such as ``algo=sac`` and ``env=FetchReach-v4``, and the names they take."""

import re
from collections.abc import Sequence
from pathlib import Path

from rlher.config.algorithms import ALGORITHMS
from rlher.config.conf_files import conf_files, conf_folders
from rlher.config.her import HER_PRESETS
from rlher.her import STRATEGIES

GROUPS = ("algo", "env", "her", "recipe")
"""Keys that take the name of a set of values, with ``<group>=<name>`` or ``--<group> <name>``."""


def command_line_choices(words: Sequence[str]) -> dict[str, str]:
    """Return the names that ``algo=sac``, ``--algo sac`` and ``--algo=sac`` choose, by group; also for ``env``."""
    lines = re.sub(r"^--(algo|env)[=\n]", r"\1=", "\n".join(words), flags=re.MULTILINE)
    return dict(re.findall(r"^(algo|env)=(.*)", lines, re.MULTILINE))


def options(group: str, config_dirs: Sequence[str] = ()) -> list[str]:
    """Return the names that ``<group>=`` takes."""
    if group in ("algo", "her"):
        return sorted(ALGORITHMS if group == "algo" else [*HER_PRESETS, *STRATEGIES])
    return list(conf_files(group, config_dirs))


def option_file(group: str, name: str, config_dirs: Sequence[str]) -> Path | None:
    """Return the file of ``<group>=<name>`` in a ``--config-dir`` or in ``conf/``, or None if there is no such file."""
    if Path(name).name != name:  # an absolute name, or one with .., would be a file elsewhere
        return None
    files = (folder / group / f"{name}.yaml" for folder in conf_folders(config_dirs))
    return next(filter(Path.is_file, files), None)
