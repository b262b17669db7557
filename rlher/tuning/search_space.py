"""Search spaces: a YAML shaped like a recipe, with a range or choices where a recipe has a value.

``her: {n_sampled_goal: {low: 1, high: 8}}`` is a range, with ``log: true`` a logarithmic one; ``{choices: [a, b]}`` is
a choice; ``only: [sac, td3]`` leaves a key to these algorithms; ``defaults: [her]`` takes in another space.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from rlher.config.algorithms import ALGORITHMS
from rlher.config.key import dotted_keys, to_object
from rlher.config.training import TrainConfig
from rlher.core.errors import UserError, did_you_mean
from rlher.core.files import read_yaml
from rlher.her.strategies import DEFAULT_MIX, KEY_TO_GOAL_STRATEGY, ORIGINAL

Space = dict[str, BaseDistribution]
TUNABLE = ("algo.", "her.", "normalize.")
LEAF_KEYS = ("low", "high", "log", "choices", "only")
MIX = "her.goal_mix."


def load(name: str, config: TrainConfig) -> Space:
    """Read a space and hold it against the config it is to vary; the config's own values always belong to it.

    :param name: files of ``conf/space`` joined by ``+``, or a path of a YAML file.
    :param config: the recipe that trial 0 is.
    :return: dotted key → distribution.
    :raises UserError: no such space, a key that does not exist, a value the key does not take.
    """
    space: Space = {}
    for part in name.split("+"):
        for key, leaf in _leaves(_read(part), part):
            if config.algo.name in leaf.pop("only", [config.algo.name]):
                space[key] = _distribution(key, leaf, config, part)
    if not space:
        raise UserError(f"space {name!r} has nothing to tune for {config.algo.name}.")
    return space


def start(space: Space, config: TrainConfig) -> dict[str, Any]:
    """Return the config's own values of the space's keys, as Optuna holds them: the parameters of trial 0."""
    return {key: encode(_value(key, config)) for key in space}


def merged(config: TrainConfig, params: Mapping[str, Any]) -> TrainConfig:
    """Return the config with a trial's parameters in it, checked against the schema.

    :raises UserError: a key or value the schema refuses.
    """
    node = OmegaConf.structured(config)
    try:
        for key, value in params.items():
            OmegaConf.update(node, key, decode(value), force_add=key.startswith(MIX))
    except OmegaConfBaseException as error:
        raise UserError(f"{key}: {str(error).splitlines()[0]}") from error
    return to_object(node, TrainConfig)


def encode(value: Any) -> Any:
    """Write a value as the databases of Optuna can hold it: what is not plain as JSON."""
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)


def decode(value: Any) -> Any:
    """Undo :func:`encode`."""
    return json.loads(value) if isinstance(value, str) and value[:1] in ("[", "{") else value


def describe(space: Space) -> dict[str, str]:
    """Say each distribution in a word, for people and for telling two spaces apart."""
    return {key: str(distribution) for key, distribution in sorted(space.items())}


def _read(name: str, within: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read one space with the ones it builds on, its own keys last.

    :param within: spaces that build on it.
    """
    shelf = resources.files("rlher.conf") / "space"
    own = name.endswith((".yaml", ".yml"))
    file = Path(name) if own else shelf / f"{name}.yaml"
    if not file.is_file():
        known = sorted(entry.name[:-5] for entry in shelf.iterdir())
        raise UserError(
            f"there is no space {name!r}{did_you_mean(name, known)}. There are: {', '.join(known)}, or a file."
        )
    try:
        if not isinstance(read_yaml(Path(str(file))), dict):
            raise UserError(f"{name} is not a space: it must be a mapping of keys to ranges.")
        tree = OmegaConf.to_container(OmegaConf.create(file.read_text()))  # plain YAML takes 1e-4 for a word
    except (OSError, ValueError, yaml.YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"cannot read the space {name}: {' '.join(str(error).split())}") from error
    assert isinstance(tree, dict)
    bases = tree.pop("defaults", None) or []
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases) or name in within:
        raise UserError(f"space {name}: its defaults must be a list of other spaces.")
    parents = [_read(base, (*within, name)) for base in bases]
    return OmegaConf.to_container(OmegaConf.merge(*parents, tree))  # type: ignore[return-value]


def _leaves(tree: dict[str, Any], space: str, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in tree.items():
        key = prefix + str(name)
        if not isinstance(value, dict):
            raise UserError(
                f"space {space!r}: {key}={value} is no range; write {{low: ..., high: ...}} or {{choices: [...]}}."
            )
        if "choices" not in value and "low" not in value and "high" not in value:
            yield from _leaves(value, space, f"{key}.")
            continue
        if unknown := [str(word) for word in value if word not in LEAF_KEYS]:
            raise UserError(f"space {space!r}: {key} has no {unknown[0]!r}{did_you_mean(unknown[0], LEAF_KEYS)}.")
        yield key, value


def _distribution(key: str, leaf: dict[str, Any], config: TrainConfig, space: str) -> BaseDistribution:
    """Make a leaf's distribution, wide enough for the config's own value, every end of it accepted by the schema."""
    _require_key(key, config, space)
    own = _value(key, config)
    if "choices" in leaf:
        ends = leaf["choices"] + ([] if own in leaf["choices"] else [own])
        made: BaseDistribution = CategoricalDistribution([encode(choice) for choice in ends])
    else:
        made, ends = _range(key, leaf, own, config, space)
    for end in ends:
        try:
            merged(config, {key: encode(end)})
        except UserError as error:
            raise UserError(f"space {space!r}: {error}") from error
    return made


def _range(
    key: str, leaf: dict[str, Any], own: Any, config: TrainConfig, space: str
) -> tuple[BaseDistribution, list[Any]]:
    kind = _type(key, config)
    numbers = [leaf.get("low"), leaf.get("high"), own]
    if kind not in (int, float) or any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers[:2]):
        raise UserError(f"space {space!r}: {key} needs choices, or low and high as numbers of its type.")
    if not isinstance(own, int | float):
        raise UserError(f"space {space!r}: {key} is {own!r} in the recipe: give it a number to start from, {key}=...")
    low, high = min(numbers), max(numbers)
    if leaf["low"] >= leaf["high"] or (leaf.get("log") and low <= 0):
        raise UserError(f"space {space!r}: {key} needs low < high{', and both above 0' if leaf.get('log') else ''}.")
    log = bool(leaf.get("log"))
    if kind is int:
        return IntDistribution(int(low), int(high), log), [int(low), int(high)]
    return FloatDistribution(float(low), float(high), log), [float(low), float(high)]


def _require_key(key: str, config: TrainConfig, space: str) -> None:
    known = [
        name
        for name in [*dotted_keys(TrainConfig), *dotted_keys(type(config.algo), "algo.")]
        if name.startswith(TUNABLE)
    ]
    known += [MIX + name for name in (*KEY_TO_GOAL_STRATEGY, ORIGINAL) if name != "mix"]
    if key in known:
        return
    elsewhere = [name for name, entry in ALGORITHMS.items() if key in dotted_keys(entry.config, "algo.")]
    if elsewhere:
        raise UserError(
            f"space {space!r} names {key}, which {config.algo.name} does not have; only: [{', '.join(elsewhere)}] "
            "leaves it to those that do."
        )
    raise UserError(f"space {space!r} names {key}, which is no key to tune{did_you_mean(key, known)}.")


def _value(key: str, config: TrainConfig) -> Any:
    if key.startswith(MIX):
        return (config.her.goal_mix or DEFAULT_MIX).get(key.removeprefix(MIX), 0.0)
    value: Any = asdict(config)
    for name in key.split("."):
        value = value[name]
    return value


def _type(key: str, config: TrainConfig) -> type | None:
    """Return the type of a key's value, less its None."""
    if key.startswith(MIX):
        return float
    section, _, name = key.partition(".")
    hint = get_type_hints(type(getattr(config, section)))[name]
    if get_origin(hint) in (list, dict):
        return None
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 else None
