"""The lists that `rlher list` prints, each a row per name."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from rlher.config.algorithms import ALGORITHMS
from rlher.config.conf_files import conf_files, read_env_config
from rlher.run.run_folder import RESULT

Row = dict[str, Any]


def algos() -> list[Row]:
    """Return one row per algorithm."""
    return [
        {"algo": name, "actions": algorithm.actions, "description": algorithm.description}
        for name, algorithm in ALGORITHMS.items()
    ]


def envs() -> list[Row]:
    """Return one row per environment of conf/env: whether it needs a package is found without building it."""
    from rlher.envs.registration import ENV_PACKAGES  # imports Gymnasium

    missing = [package for module, package in ENV_PACKAGES.items() if package.extra and find_spec(module) is None]
    rows = []
    for name in conf_files("env"):
        env = read_env_config(name)
        needs = "".join(f"pip install 'rlher[{package.extra}]'" for package in missing if re.match(package.ids, env.id))
        rows.append({"env": name, "actions": env.actions, "needs": needs, "description": env.description})
    return rows


def strategies() -> list[Row]:
    """Return one row per goal selection strategy."""
    from rlher.her import STRATEGIES

    return [
        {"strategy": name, "description": (strategy.__doc__ or "").splitlines()[0]}
        for name, strategy in STRATEGIES.items()
    ]


def agents() -> list[Row]:
    """Return one row per agent that comes with rlher: its final success rate and the steps it was trained for."""
    from rlher.core.reading import read_json
    from rlher.run import lookup, run_folder

    rows = []
    for name in lookup.agent_names():
        config = run_folder.read_config(lookup.agent_folder(name))
        best = read_json(lookup.agent_folder(name) / RESULT)["best"]
        success = "{success_rate:.0%} of {episodes} episodes".format(**best)
        rows.append({"agent": name, "env": config.env.id, "success": success, "steps": best["timesteps"]})
    return rows


LISTS: dict[str, Callable[[], list[Row]]] = {"algos": algos, "envs": envs, "strategies": strategies, "agents": agents}
"""The lists by name."""
