"""What `conf/env/` holds, read without composing it and without building anything."""

import importlib.util
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

# The file that stands for every environment without a YAML of its own.
ANY = "any"
PACKAGE_OF_EXTRA = {"panda": "panda_gym"}


@dataclass(frozen=True)
class Entry:
    """A line of `rlher list envs`.

    :param name: what ``env=`` takes.
    :param id: the id gymnasium.make takes.
    :param actions: ``"continuous"``, ``"discrete"``, or both with a word between.
    :param description: one line.
    :param extra: optional dependency it comes with, or ``None``.
    :param installed: whether that dependency is there.
    """

    name: str
    id: str
    actions: str
    description: str
    extra: str | None
    installed: bool


def yaml_names() -> list[str]:
    """Return the names ``env=`` takes, sorted: those of the YAML files, ``any`` left out."""
    folder = resources.files("rlher.conf") / "env"
    names = (file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))
    return sorted(name for name in names if name != ANY)


def yaml_ids() -> set[str]:
    """Return the ids of the environments that have a YAML."""
    return {str(read(name)["id"]) for name in yaml_names()}


def read(name: str) -> dict[str, Any]:
    """Return the keys that ``conf/env/<name>.yaml`` sets."""
    return yaml.safe_load((resources.files("rlher.conf") / "env" / f"{name}.yaml").read_text("utf-8"))


def entries() -> list[Entry]:
    """Return every environment with a YAML, sorted by name. No environment is built, nothing heavy is imported."""
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
