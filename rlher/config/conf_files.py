"""The YAML files of ``conf/`` and of plugins: environments, recipes and search spaces."""

from collections.abc import Sequence
from contextvars import ContextVar
from importlib import resources
from pathlib import Path
from typing import Any

from rlher.config.environment import EnvConfig
from rlher.config.key import set_values, validate
from rlher.config.plugins import plugin_values
from rlher.core.errors import UserError, first_line, unreadable
from rlher.core.safe_files import read_yaml

CONF = Path(str(resources.files("rlher.conf")))


config_dirs: ContextVar[Sequence[str]] = ContextVar("config_dirs", default=())
"""Folders of further config files, which the flag ``--config-dir`` of the command line names."""


def conf_folders() -> list[Path]:
    """Return the folders of config files, :data:`config_dirs` first; of files with one name the first counts."""
    return [*map(Path, config_dirs.get()), CONF, *filter(Path.is_dir, plugin_values("CONF"))]


def conf_files(group: str) -> dict[str, Path]:
    """Return the files of a group, such as ``env``, by name, sorted."""
    folders = reversed(conf_folders())
    files = {file.stem: file for folder in folders for file in (folder / group).glob("*.yaml")}
    return dict(sorted(files.items()))


def conf_env(name: str) -> EnvConfig:
    """Return the config of the environment of ``conf/env/<name>.yaml``."""
    return read_env(conf_files("env")[name])


def read_env(path: Path) -> EnvConfig:
    """Return the config of an environment from its YAML file.

    :raises UserError: the file cannot be read, or has an unknown key or an invalid value.
    """
    config = EnvConfig()
    try:
        set_values(config, read_mapping(path))
        validate(config)
    except UserError as error:
        raise UserError(f"{path} is no environment: {first_line(error)}.") from None
    return config


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the content of a YAML file.

    :raises UserError: it cannot be read, or is no mapping.
    """
    try:
        content = read_yaml(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise UserError(f"cannot read {path}: {first_line(error)}.") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a mapping of keys to values.")
    return content
