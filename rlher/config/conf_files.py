"""The YAML files of ``conf/`` and of plugins: environments, recipes and search spaces."""

from pathlib import Path
from typing import Any

from rlher.config.assignment import set_values
from rlher.config.environment import EnvConfig
from rlher.config.key import validate
from rlher.config.plugins import plugin_values
from rlher.core.errors import UserError, first_line, unreadable
from rlher.core.reading import YAML_SUFFIXES, read_yaml

CONF = Path(__file__).parents[1] / "conf"


def conf_files(group: str) -> dict[str, Path]:
    """Return the files of a group, such as ``env``, sorted by name. If a plugin reuses a name, rlher's file counts."""
    folders = [CONF, *plugin_values("CONF")]
    files = {file.stem: file for folder in reversed(folders) for file in (folder / group).glob("*.yaml")}
    return dict(sorted(files.items()))


def is_yaml_path(name: str) -> bool:
    """Return whether the value of ``env=``, ``recipe=`` or ``space=`` is the path of a file, not a name."""
    return name.endswith(YAML_SUFFIXES)


def find_conf_file(group: str, name: str) -> Path | None:
    """Return the file that ``<group>=<name>`` names, or None if no file of the group has this name.

    :param name: a name of :func:`conf_files`, or the path of a YAML file. The path need not exist.
    """
    return Path(name) if is_yaml_path(name) else conf_files(group).get(name)


def read_env_config(name: str) -> EnvConfig:
    """Return the config of the environment in ``conf/env/<name>.yaml``."""
    return read_env_file(conf_files("env")[name])


def read_env_file(path: Path) -> EnvConfig:
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


def read_mapping(path: Path, has_aliases: bool = False) -> dict[str, Any]:
    """Return the content of a YAML file.

    :param has_aliases: whether the file may have aliases, as RL Zoo's files do.
    :raises UserError: the file cannot be read, or does not hold a mapping.
    """
    try:
        return read_yaml(path, has_aliases)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise UserError(f"cannot read {path}: {first_line(error)}.") from error
