"""Registration of environments with Gymnasium, and the extras that they need.

Only the package that an id belongs to is imported.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvCreator, load_env_creator

from rlher.config.conf_files import conf_files
from rlher.config.environment import EnvConfig
from rlher.core.errors import UserError, did_you_mean, require_package
from rlher.core.user_code import import_module
from rlher.envs.simulators import import_env_package


@dataclass(frozen=True)
class EnvPackage:
    """A package that registers environments on import.

    :param ids: pattern of their ids.
    :param distributions: the names with which pip installs it and its simulator.
    :param extra: the extra of pip that installs it; None: every installation of rlher has it.
    """

    ids: str
    distributions: tuple[str, ...]
    extra: str | None = None


ENV_PACKAGES = {
    "gymnasium_robotics": EnvPackage(r"Fetch|Hand|PointMaze|AntMaze|Adroit|Franka", ("gymnasium-robotics", "mujoco")),
    "highway_env": EnvPackage(r"parking", ("highway-env",)),
    "panda_gym": EnvPackage(r"Panda", ("panda-gym", "pybullet"), extra="panda"),
}
"""The package of an id is imported first, because highway_env alone takes longer to import than most commands to run.

The others are imported before an id is reported as unknown.
"""


def require_registered(env_id: str, modules: Iterable[str] = ()) -> None:
    """Import what registers ``env_id`` with gymnasium; raise UserError if nothing does.

    ``modules`` are imported first, then the package that the id seems to belong to.

    :param env_id: as gymnasium.make takes it, ``module:id`` included.
    :raises UserError: a module cannot be imported, the id is unknown (the closest ids are named), or it needs an extra
        that is not installed.
    """
    if not env_id:
        raise UserError("env is not set; use env=<name>, for example env=FetchReach-v4, or env.id=<id>.")
    prefix, _, name = env_id.rpartition(":")
    for module in [*modules, *([prefix] if prefix else [])]:
        import_module(module)
    for module, package in ENV_PACKAGES.items():
        # If the user's module imported the package, our corrections are missing; import_env_package applies them.
        if re.match(package.ids, name) and (name not in gym.registry or module in sys.modules):
            try:
                import_env_package(module)
            except ImportError:
                require_package(name, module, package.extra)
                raise  # a broken installation
    for module in ENV_PACKAGES:
        if name not in gym.registry:
            with suppress(ImportError):
                import_env_package(module)
    if name not in gym.registry:
        near = did_you_mean(name, conf_files("env")) or did_you_mean(name, gym.registry)
        raise UserError(
            f"no environment is called {name!r}{near}. `rlher list envs` prints the "
            "available ones; one of your own is registered in a module that env.modules=[<module>] names."
        )


def registering_module(env_id: str) -> str | None:
    """Return the module that holds the class of an environment that the user registered in this process.

    None for other environments, which every process can make.

    :raises UserError: the class is of the script or notebook that runs.
    """
    module = entry_module(env_id) if env_id in gym.registry else ""
    if module == "__main__":
        raise UserError(f"register {env_id} in a module of your own, not in the script or notebook that runs.")
    return None if module.partition(".")[0] in ("", "gymnasium", "rlher", *ENV_PACKAGES) else module


def entry_point(env_id: str) -> EnvCreator | str:
    """Return what builds an environment: a callable, or where to find it as ``module:name``.

    :param env_id: id of an environment that is registered already, ``module:id`` included.
    """
    spec: Any = gym.spec(env_id.rpartition(":")[2])  # gymnasium.spec takes no module
    return spec.entry_point


def entry_module(env_id: str) -> str:
    """Return the module of what builds an environment that is registered already."""
    entry = entry_point(env_id)
    return entry.partition(":")[0] if isinstance(entry, str) else entry.__module__


def render_modes(config: EnvConfig) -> Sequence[str]:
    """Return the render modes that an environment's class declares, without building it.

    A class without any may have a constructor without ``render_mode``.

    :raises UserError: unknown id or module, or missing extra.
    """
    require_registered(config.id, config.modules)
    entry = entry_point(config.id)
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    return getattr(creator, "metadata", {}).get("render_modes", ("human", "rgb_array"))  # a function has no metadata
