"""Overrides: values by config key or short form, such as ``{"algo": "sac", "algo.gamma": 0.9}``."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from rlher.config.algorithms import ALGORITHMS, algorithm_of
from rlher.config.conf_files import conf_files
from rlher.config.her import HER_PRESETS
from rlher.config.key import UnknownKey, dotted_keys, set_values, values_by_key
from rlher.config.training import all_train_keys
from rlher.core.errors import UserError, did_you_mean
from rlher.core.nested import flatten_sections
from rlher.her import STRATEGIES

GROUPS = ("algo", "env", "her", "recipe")
"""Keys whose value is the name of a set of values, such as ``algo=sac``, ``--algo sac`` and ``env=FetchReach-v4``."""

SHORT_KEYS = {"demos": "demos.path"}
"""The key that each short form sets."""


def names_in_group(group: str) -> list[str]:
    """Return the names that ``<group>=`` takes."""
    if group in ("algo", "her"):
        return sorted(ALGORITHMS if group == "algo" else [*HER_PRESETS, *STRATEGIES])
    return list(conf_files(group))


def expand_overrides(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of overrides by config key. Those of groups come first, so that others override them.

    :param overrides: single values by key or short form.
    """
    values: dict[str, Any] = {}
    for key, value in sorted(flatten_sections(overrides, all_train_keys()), key=lambda pair: pair[0] not in GROUPS):
        values |= _replace_short_form(key, value)
    return values


def _replace_short_form(key: str, value: Any) -> dict[str, Any]:
    """Return what an override stands for."""
    if key.startswith("algo.net_arch.") or (key == "algo.net_arch" and isinstance(value, Mapping)):  # {pi: [32], qf: …}
        return {key.replace("net_arch", "policy_kwargs.net_arch"): value}
    if key in SHORT_KEYS:
        return {SHORT_KEYS[key]: value}
    if key == "recipe":
        return {key: str(value) if value else None}
    if key in GROUPS and value in (None, "", {}):
        raise UserError(f"{key}={value or 'null'}: {key} needs a name; use one of {', '.join(names_in_group(key))}.")
    if key == "her":
        name = "off" if value is False else str(value)  # YAML's other word for it
        return HER_PRESETS.get(name, {"her.goal_selection_strategy": name})
    if key == "algo" and re.fullmatch(r"[\w.]+:[\w.]+", str(value)):
        return {key: algorithm_of(value), "algo.model": value}
    return {key: value}


def assign(config: Any, values: Mapping[str, Any], unknown_key_message: str = "there is no key") -> None:
    """Set values in a config.

    :param values: by dotted key, or in nested mappings.
    :param unknown_key_message: beginning of the message about a key that the config does not have.
    :raises UserError: there is no such key, or it cannot take its value.
    """
    try:
        set_values(config, values)
    except UnknownKey as error:
        keys = [key for key, _, _ in values_by_key(config)]
        if error.key.startswith("env.") and "env" in keys:  # as in `rlher collect`
            raise UserError(f"{error.key} belongs to no environment; add env=<id>, or leave it out.") from None
        raise UserError(f"{unknown_key_message} {error.key!r}{_closest_key(error.key, keys)}.") from None


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
