"""The environments of `conf/env/`, read from the YAML files without building them."""

import importlib.util
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

ANY = "any"
"""The YAML used for environments without their own YAML."""

PACKAGE_OF_EXTRA = {"panda": "panda_gym"}
"""Package that an extra of pip installs, where its name differs."""


@dataclass(frozen=True)
class Entry:
    """An environment with a YAML, a row of `rlher list envs`.

    :param name: value of ``env=``.
    :param actions: ``"continuous"`` or ``"discrete"``.
    :param extra: extra of pip that installs it, or ``None``.
    """

    name: str
    id: str
    actions: str
    description: str
    extra: str | None
    installed: bool


def yaml_names() -> list[str]:
    """Return the names that ``env=`` accepts, sorted: the YAML files without ``any``."""
    folder = resources.files("rlher.conf") / "env"
    names = (file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))
    return sorted(name for name in names if name != ANY)


def yaml_ids() -> set[str]:
    """Return the ids of the environments that have a YAML."""
    return {str(read(name)["id"]) for name in yaml_names()}


def read(name: str) -> dict[str, Any]:
    """Return the content of ``conf/env/<name>.yaml``."""
    return yaml.safe_load((resources.files("rlher.conf") / "env" / f"{name}.yaml").read_text("utf-8"))


def entries() -> list[Entry]:
    """Return every environment with a YAML, sorted by name."""
    return [_entry(name, read(name)) for name in yaml_names()]


def _entry(name: str, keys: dict[str, Any]) -> Entry:
    extra = keys.get("extra")
    return Entry(
        name=name,
        id=keys["id"],
        actions=keys["actions"],
        description=keys["description"],
        extra=extra,
        installed=extra is None or importlib.util.find_spec(PACKAGE_OF_EXTRA.get(extra, extra)) is not None,
    )
