"""The YAML files of ``conf/``: environments, recipes and search spaces."""

from importlib import resources
from pathlib import Path

CONF = Path(str(resources.files("rlher.conf")))


def conf_files(group: str) -> dict[str, Path]:
    """Return the files of ``conf/<group>/`` by name, sorted."""
    return dict(sorted((file.stem, file) for file in (CONF / group).glob("*.yaml")))
