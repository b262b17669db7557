"""Registration of environments with Gymnasium, and the extras that they need.

If a known package registers an id, no other package is imported.
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

    :param ids: pattern of the environments' ids.
    :param distributions: names under which pip installs the package and its simulator.
    :param extra: extra of rlher that installs the package, None if every installation of rlher has it.
    """

    ids: str
    distributions: tuple[str, ...]
    extra: str | None = None


ENV_PACKAGES = {
    "gymnasium_robotics": EnvPackage(r"Fetch|Hand|PointMaze|AntMaze|Adroit|Franka", ("gymnasium-robotics", "mujoco")),
    "highway_env": EnvPackage(r"parking", ("highway-env",)),
    "panda_gym": EnvPackage(r"Panda", ("panda-gym", "pybullet"), extra="panda"),
}
"""Packages by module. The package that matches an id is imported first, because imports are slow.

Importing highway_env alone takes longer than most commands. The other packages are imported only if the id is still
unknown.
"""


def require_registered(env_id: str, modules: Iterable[str] = ()) -> None:
    """Import the modules that register ``env_id`` with Gymnasium; raise UserError if none registers it.

    ``modules`` are imported first, then the package whose pattern matches the id.

    :param env_id: id as ``gymnasium.make`` takes it, also ``module:id``.
    :raises UserError: a module cannot be imported, the id is unknown (the closest ids are named), or it needs an extra
        that is not installed.
    """
    if not env_id:
        raise UserError("env is not set; use env=<name>, for example env=FetchReach-v4, or env.id=<id>.")
    prefix, _, name = env_id.rpartition(":")
    for module in [*modules, *([prefix] if prefix else [])]:
        import_module(module)
    for module, package in ENV_PACKAGES.items():
        # import_env_package applies rlher's corrections, also if a user's module imported the package before.
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
    """Return the module with the class of an environment that the user registered in this process.

    Return None for other environments, because every process can make them.

    :raises UserError: the class is defined in the running script or notebook.
    """
    module = entry_module(env_id) if env_id in gym.registry else ""
    if module == "__main__":
        raise UserError(f"register {env_id} in a module of your own, not in the script or notebook that runs.")
    return None if module.partition(".")[0] in ("", "gymnasium", "rlher", *ENV_PACKAGES) else module


def entry_point(env_id: str) -> EnvCreator | str:
    """Return the entry point of an environment: a callable, or its ``module:name``.

    :param env_id: id of a registered environment, also as ``module:id``.
    """
    spec: Any = gym.spec(env_id.rpartition(":")[2])  # gymnasium.spec takes no module
    return spec.entry_point


def entry_module(env_id: str) -> str:
    """Return the module of a registered environment's entry point."""
    entry = entry_point(env_id)
    return entry.partition(":")[0] if isinstance(entry, str) else entry.__module__


def render_modes(config: EnvConfig) -> Sequence[str]:
    """Return the render modes that an environment's class declares, without building it.

    The constructor of a class without render modes may lack the argument ``render_mode``.

    :raises UserError: unknown id or module, or missing extra.
    """
    require_registered(config.id, config.modules)
    entry = entry_point(config.id)
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    return getattr(creator, "metadata", {}).get("render_modes", ("human", "rgb_array"))  # a function has no metadata
