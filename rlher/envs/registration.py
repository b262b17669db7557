"""Registration of environments with gymnasium, importing only the package that an id belongs to."""

import contextlib
import importlib
import io
import os
import re
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from types import ModuleType

import gymnasium as gym
from gymnasium.envs.registration import EnvCreator

from rlher.core.errors import UserError, did_you_mean, pip_install
from rlher.envs import patches
from rlher.envs.catalog import yaml_ids, yaml_names

FAMILIES = {
    "gymnasium_robotics": r"Fetch|Hand|PointMaze|AntMaze|Adroit|Franka",
    "highway_env": r"parking",
    "panda_gym": r"Panda",
}
"""Packages that register environments on import, and the pattern of their ids.

A matching package is imported first, because highway_env alone takes longer to import than most commands to run; the
others are imported before an id is reported as unknown.
"""

EXTRAS = {"panda_gym": "panda"}

gym.register(id="BitFlipping-v0", entry_point="rlher.envs.bit_flipping:BitFlippingEnv")


def ensure_registered(env_id: str, modules: Iterable[str] = ()) -> None:
    """Import what registers ``env_id`` with gymnasium: ``modules`` first, then the package it seems to belong to.

    :param env_id: as gymnasium.make takes it, ``module:id`` included.
    :raises UserError: a module cannot be imported, the id is unknown (the closest ids are named), or it needs an extra
        that is not installed.
    """
    if not env_id:
        raise UserError("env is not set; use env=<name>, for example env=FetchReach-v4, or env.id=<id>.")
    module, _, name = env_id.rpartition(":")
    for package in [*modules, *([module] if module else [])]:
        import_module(package)
    for family, pattern in sorted(FAMILIES.items(), key=lambda item: not re.match(item[1], name)):
        if name in gym.registry:
            return
        try:
            _import_quietly(family)
        except ImportError:
            if re.match(pattern, name):
                raise UserError(_how_to_install(name, family)) from None
    if name not in gym.registry:
        near = did_you_mean(name, yaml_names()) or did_you_mean(name, gym.registry)
        raise UserError(
            f"no environment is called {name!r}{near}. `rlher list envs` prints the "
            "available ones; an environment of your own package needs env.modules=[<package>]."
        )


def entry_point(env_id: str) -> EnvCreator | str:
    """Return what builds an environment: a callable, or where to find it as ``module:name``.

    :param env_id: of an environment that is registered already, ``module:id`` included.
    """
    found = gym.spec(env_id.rpartition(":")[2]).entry_point  # gymnasium.spec takes no module
    assert found is not None, f"{env_id} has no entry point"
    return found


def import_module(module: str, key: str = "env.modules") -> ModuleType:
    """Import a module that the user named; one of the current folder is found, too.

    :param key: config key that names it, for messages.
    :raises UserError: it cannot be imported.
    """
    # The current folder is searched last, and only for a module that is not installed. Absolute, because a worker
    # process may have another one.
    if os.getcwd() not in sys.path and not _is_found(module.partition(".")[0]):
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and module.split(".")[0] == error.name.split(".")[0]:
            raise UserError(f"{key}={module!r} cannot be imported; install it, or change to its folder.") from None
        raise UserError(f"importing {module!r} failed: {error}.") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit of a script without a main guard
        raise UserError(f"importing {module!r} failed: {type(error).__name__}: {error}.") from error


def _is_found(name: str) -> bool:
    with contextlib.suppress(ValueError):  # a module without a spec, such as __main__; not a name at all
        return find_spec(name) is not None
    return False


def _import_quietly(family: str) -> None:
    # These packages print release notices to stderr on import.
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            if family == "highway_env":
                import rlher.core.matplotlib_settings  # noqa: F401  # before it imports matplotlib
            importlib.import_module(family)
    except Exception as error:
        wanted = os.environ.get("MUJOCO_GL")
        if not wanted or isinstance(error, ModuleNotFoundError):
            raise
        raise UserError(  # MuJoCo loads its OpenGL library on import
            f"{family} cannot be imported, because MUJOCO_GL={wanted} does not work here ({error}); unset it."
        ) from error
    if family == "highway_env":
        from rlher.envs.fast_parking import patch_highway_env

        patch_highway_env()
    if family == "gymnasium_robotics":
        patches.patch_joint_reader()


def _how_to_install(name: str, family: str) -> str:
    extra = EXTRAS.get(family)
    pip = pip_install(extra) if extra else f"pip install {family.replace('_', '-')}"
    known = name in yaml_ids()
    return f"{name} {'needs' if known else 'seems to need'} {family}, which is not installed: {pip}"
