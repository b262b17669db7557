"""The lists that `rlher list` prints, each a row per name."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from rlher.config.algorithms import ALGORITHMS
from rlher.config.conf_files import conf_files, read_env_config
from rlher.her.strategies import STRATEGIES
from rlher.run.lookup import pretrained_agent_folder, pretrained_agent_names
from rlher.run.run_folder import read_config, read_result

Row = dict[str, Any]


def algos() -> Iterator[Row]:
    """Yield one row per algorithm."""
    for name, algorithm in ALGORITHMS.items():
        yield {"algo": name, "actions": algorithm.actions, "description": algorithm.description}


def envs() -> Iterator[Row]:
    """Yield one row per environment of conf/env, and check for its package without building the environment."""
    from rlher.envs.registration import ENV_PACKAGES  # imports Gymnasium

    missing = [package for module, package in ENV_PACKAGES.items() if package.extra and find_spec(module) is None]
    for name in conf_files("env"):
        env = read_env_config(name)
        needs = "".join(f"pip install 'rlher[{package.extra}]'" for package in missing if re.match(package.ids, env.id))
        yield {"env": name, "actions": env.actions, "needs": needs, "description": env.description}


def strategies() -> Iterator[Row]:
    """Yield one row per goal selection strategy."""
    for name, strategy in STRATEGIES.items():
        yield {"strategy": name, "description": (strategy.__doc__ or "").splitlines()[0]}


def agents() -> Iterator[Row]:
    """Yield one row per pretrained agent: its final success rate and the steps it was trained for."""
    for name in pretrained_agent_names():
        folder = pretrained_agent_folder(name)
        config = read_config(folder)
        best = read_result(folder)["best"]
        success = "{success_rate:.0%} of {episodes} episodes".format(**best)
        yield {"agent": name, "env": config.env.id, "success": success, "steps": best["timesteps"]}


LISTS = {"algos": algos, "envs": envs, "strategies": strategies, "agents": agents}
"""The lists by name."""
