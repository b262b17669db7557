"""A trial's config as a recipe: a file that `rlher train tuned=<file>` uses as it is."""

from collections.abc import Iterator
from dataclasses import asdict
from importlib import resources
from typing import Any

import yaml
from omegaconf import OmegaConf

from rlher.config.algorithms import ALGORITHMS
from rlher.config.environment import EnvConfig
from rlher.config.training import TrainConfig
from rlher.core.nested import flatten, unflatten

# What a recipe leaves to whoever trains with it.
NOT_RECIPE = (
    "seed",
    "vec_env",
    "env.step_timeout",
    "env.max_restarts",
    "device",
    "threads",
    "eval.seed",
    "checkpoint",
    "init_from",
    "resume",
    "logs",
    "dry_run",
    "progress",
    "tensorboard",
    "json",
)


def text(config: TrainConfig, comments: list[str]) -> str:
    """Write what differs from the defaults of the algorithm and the environment as a recipe.

    :param comments: lines for its head.
    """
    tree = unflatten(dict(flat(_differing(asdict(config), asdict(_defaults(config))))))
    head = "".join(f"# {line}\n" for line in ["@package _global_", *comments])
    return head + (yaml.safe_dump(tree, sort_keys=False) if tree else "# the defaults as they are\n")


def flat(tree: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """List a config's keys that belong to a recipe, dotted, with their values."""
    for key, value in flatten(tree):
        if not any(key == each or key.startswith(f"{each}.") for each in NOT_RECIPE):
            yield key, value


def _differing(tree: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict) and isinstance(defaults.get(name), dict):
            if inner := _differing(value, defaults[name]):
                found[name] = inner
        elif name not in defaults or value != defaults[name]:
            found[name] = value
    return found


def _defaults(config: TrainConfig) -> TrainConfig:
    """Return what `rlher train algo=... env=... ~tuned` would train with."""
    algo = _from_file(ALGORITHMS[config.algo.name].config(), "algo", config.algo.name)
    env: EnvConfig = _from_file(type(config.env)(id=config.env.id), "env", config.env.name or config.env.id)
    return TrainConfig(algo=algo, env=env)


def _from_file(schema: Any, group: str, name: str) -> Any:
    file = resources.files("rlher.conf") / group / f"{name}.yaml"
    node = OmegaConf.structured(schema)
    if file.is_file():
        values: dict[str, Any] = OmegaConf.to_container(OmegaConf.create(file.read_text()))  # type: ignore[assignment]
        node = OmegaConf.merge(node, {key: value for key, value in values.items() if key != "defaults"})
    return OmegaConf.to_object(node)
