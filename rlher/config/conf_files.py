"""The YAML files of ``conf/`` and of plugins: environments, recipes and search spaces."""

from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from omegaconf import OmegaConf

from rlher.config.environment import EnvConfig
from rlher.config.key import to_object
from rlher.config.plugins import plugin_values

CONF = Path(str(resources.files("rlher.conf")))


def conf_folders(config_dirs: Iterable[str] = ()) -> list[Path]:
    """Return the folders in which files are looked for, those of ``--config-dir`` first; the first file counts."""
    return [*map(Path, config_dirs), CONF, *filter(Path.is_dir, plugin_values("CONF"))]


def conf_files(group: str) -> dict[str, Path]:
    """Return the files of a group, such as ``env``, by name, sorted."""
    found = {file.stem: file for folder in reversed(conf_folders()) for file in (folder / group).glob("*.yaml")}
    return dict(sorted(found.items()))


def conf_env(name: str) -> EnvConfig:
    """Return the config of the environment of ``conf/env/<name>.yaml``."""
    return to_object(OmegaConf.merge(OmegaConf.structured(EnvConfig), OmegaConf.load(conf_files("env")[name])))
