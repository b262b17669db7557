"""The YAML files of ``conf/`` and of plugins: environments, recipes and search spaces."""

from importlib import resources
from pathlib import Path

from rlher.config.plugins import plugin_values

CONF_FOLDERS: list[Path] = [*map(Path, plugin_values("CONF")), Path(str(resources.files("rlher.conf")))]
"""Where files are looked for; the first one of a name counts."""


def conf_files(group: str) -> dict[str, Path]:
    """Return the files of a group, such as ``env``, by name, sorted."""
    found = {file.stem: file for folder in reversed(CONF_FOLDERS) for file in (folder / group).glob("*.yaml")}
    return dict(sorted(found.items()))
