"""Writes a trial's config as a recipe: a YAML of tuned hyperparameters for `rlher train --recipe <file>`."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import resources
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from rlher.config.algorithms import ALGORITHMS
from rlher.config.training import TrainConfig, keys_ignored_by
from rlher.core.nested import flatten, unflatten

NOT_RECIPE = keys_ignored_by("recipe")
"""Keys that a recipe leaves to the user: seeds, machine, files and output."""


def recipe_text(config: TrainConfig, comments: list[str]) -> str:
    """Return a recipe with the values that differ from the defaults of the algorithm and the environment.

    :param comments: lines for its head.
    """
    defaults = dict(flatten(_defaults(config)))
    tuned = {key: value for key, value in recipe_items(asdict(config)) if key not in defaults or value != defaults[key]}
    head = "".join(f"# {line}\n" for line in ["@package _global_", *comments])
    return head + (
        yaml.safe_dump(unflatten(tuned), sort_keys=False) if tuned else "# no value differs from the defaults\n"
    )


def recipe_items(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys of a config that belong in a recipe, with their values."""
    for key, value in flatten(config):
        if key not in NOT_RECIPE:
            yield key, value


def _defaults(config: TrainConfig) -> dict[str, Any]:
    """Return the config that `rlher train algo=... env=... recipe=null` would compose."""
    algo = _from_file(ALGORITHMS[config.algo.name].config(), "algo", config.algo.name, config.algo)
    env = _from_file(type(config.env)(id=config.env.id), "env", config.env.name or config.env.id, config.env)
    return asdict(TrainConfig()) | {"algo": algo, "env": env}


def _from_file(schema: Any, group: str, name: str, section: Any) -> dict[str, Any]:
    """Return the defaults of ``conf/<group>/<name>.yaml``, or the schema's if there is no such file.

    :param section: the config's own section; values that the file derives from other keys are derived from it.
    """
    file = resources.files("rlher.conf") / group / f"{name}.yaml"
    node = OmegaConf.structured(schema)
    if file.is_file():
        values = OmegaConf.create(file.read_text())
        assert isinstance(values, DictConfig)
        values.pop("defaults", None)
        node = OmegaConf.merge(node, values)
    derived = [key for key in node if OmegaConf.is_interpolation(node, key)]
    own = OmegaConf.merge(node, {key: value for key, value in asdict(section).items() if key not in derived})
    return {**OmegaConf.to_container(node), **{key: own[key] for key in derived}}  # type: ignore[dict-item]
