"""Overrides: values by config key or short form, such as ``{"algo": "sac", "algo.gamma": 0.9}``."""

import re
from collections.abc import Collection, Mapping
from dataclasses import Field
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlher.composition.groups import GROUPS, options
from rlher.composition.override_syntax import override_value
from rlher.config.algorithms import ALGORITHMS, algorithm_of
from rlher.config.her import HER_PRESETS
from rlher.config.key import dotted_keys, takes_list, takes_text
from rlher.core.errors import UserError, did_you_mean, first_line
from rlher.core.nested import flatten

SHORT_KEYS = {"space": "search_space", "demos": "demos.path"}
"""The key that each short form sets."""
KINDS_OF_VALUES = {"to Integer": "a whole number", "to Float": "a number", "a valid bool": "true or false"}
"""What the value of a key must be, by the end of OmegaConf's message."""


def config_values(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of overrides by config key. Those of groups come first, so that others override them.

    :param overrides: single values by key or short form.
    """
    values: dict[str, Any] = {}
    for key, value in sorted(flatten(overrides), key=lambda pair: pair[0] not in GROUPS):
        values |= _replace_short_form(key, value)
    return values


def _replace_short_form(key: str, value: Any) -> dict[str, Any]:
    """Return what an override stands for."""
    if key.startswith("algo.net_arch."):  # {pi: [32], qf: [64]}, for actor and critic
        return {key.replace("net_arch", "policy_kwargs.net_arch"): value}
    if key in SHORT_KEYS:
        return {SHORT_KEYS[key]: value}
    if key == "recipe":
        return {key: str(value) if value else None}
    if key in GROUPS and value in (None, "", {}):
        raise UserError(f"{key}={value or 'null'}: {key} needs a name; use one of {', '.join(options(key))}.")
    if key == "her":
        name = "off" if value is False else str(value)  # YAML's other word for it
        return HER_PRESETS.get(name, {"her.goal_selection_strategy": name})
    if key == "algo" and re.fullmatch(r"[\w.]+:[\w.]+", str(value)):
        return {key: algorithm_of(value), "algo.model": value}
    return {key: value}


def assign(
    config: DictConfig, values: dict[str, Any], keys: dict[str, Field], unknown_key_message: str = "there is no key"
) -> None:
    """Set values in a config.

    :param values: by dotted key, or in nested mappings.
    :param keys: config keys that may be set.
    :param unknown_key_message: beginning of the message about a key that is not among them.
    :raises UserError: there is no such key, or it cannot take its value.
    """
    mappings = [name for name, field in keys.items() if "dict" in str(field.type)]
    for key, value in flatten(values):
        if value == {}:
            continue
        if key not in keys and not any(key.startswith(f"{name}.") for name in mappings):
            if key.startswith("env.") and "env" in keys:  # as in `rlher collect`
                raise UserError(f"{key} belongs to no environment; add env=<id>, or leave it out.")
            raise UserError(f"{unknown_key_message} {key!r}{_closest_key(key, keys)}.")
        field = keys.get(key)
        if field and not takes_text(field) and isinstance(value, float) and value.is_integer():
            value = int(value)  # total_timesteps=1e5; OmegaConf refuses a float for a whole number
        if field and takes_list(field) and not isinstance(value, list | None):
            value = [value]  # algo.net_arch=256
        try:
            OmegaConf.update(config, key, value, force_add=True)
        except OmegaConfBaseException as error:
            raise UserError(_invalid_value(key, value, first_line(error))) from None


def _invalid_value(key: str, value: Any, cause: str) -> str:
    """Return the message about a value that a key cannot take.

    :param cause: OmegaConf's message.
    """
    value = override_value(value)
    if cause.startswith("Cannot convert 'list'"):
        return f"{key}={value}: {key} takes one value."
    for ending, kind in KINDS_OF_VALUES.items():
        if cause.endswith(ending):
            return f"{key}={value} is invalid; {key} is {kind}."
    return f"{key}={value}: {cause}."


def _closest_key(key: str, keys: Collection[str]) -> str:
    """Return a hint at the algorithms that have an unknown key, or at the keys nearest to it, or ``""``.

    :param keys: the keys of the command.
    """
    if owners := [f"algo={name}" for name, entry in ALGORITHMS.items() if key in dotted_keys(entry.config, "algo.")]:
        return f": it is a key of {', '.join(owners)}"
    section, _, name = key.rpartition(".")
    receiver = {"env": "the environment itself", "algo": "an algorithm of your own"}.get(section)
    argument = f"; an argument of {receiver} is {section}.kwargs.{name}" if receiver else ""
    return f"{did_you_mean(key, keys)}{argument}"
