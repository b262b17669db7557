"""The lists that `rlher list` prints, each a row per name."""

from collections.abc import Callable
from typing import Any

from rlher.config.algorithms import ALGORITHMS
from rlher.run.run_folder import RESULT

Row = dict[str, Any]


def algos() -> list[Row]:
    """Return one row per algorithm."""
    return [
        {"algo": name, "actions": algorithm.actions, "description": algorithm.description}
        for name, algorithm in ALGORITHMS.items()
    ]


def envs() -> list[Row]:
    """Return one row per environment of conf/env."""
    from rlher.envs.registration import list_envs

    return list_envs()


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
        best = read_json(lookup.agent_folder(name) / RESULT).get("best", {})
        success = "–" if "success_rate" not in best else "{success_rate:.0%} of {episodes} episodes".format(**best)
        rows.append({"agent": name, "env": config.env.id, "success": success, "steps": best.get("timesteps", "–")})
    return rows


LISTS: dict[str, Callable[[], list[Row]]] = {"algos": algos, "envs": envs, "strategies": strategies, "agents": agents}
"""The lists by name."""
