"""Overrides: values by config key or short form, such as ``{"algo": "sac", "algo.gamma": 0.9}``."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rlher.config.algorithms import ALGORITHMS, algorithm_of
from rlher.config.conf_files import conf_files
from rlher.config.her import HER_PRESETS
from rlher.config.training import all_train_fields
from rlher.core.errors import UserError
from rlher.core.nested import flatten_sections
from rlher.her import STRATEGIES

GROUPS = ("algo", "env", "her", "recipe")
"""Keys whose value is the name of a set of values, such as ``algo=sac``, ``--algo sac`` and ``env=FetchReach-v4``."""

SHORT_KEYS = {"demos": "demos.path"}
"""The key that each short form sets."""


def names_in_group(group: str) -> list[str]:
    """Return the names that ``<group>=`` takes."""
    if group == "algo":
        return sorted(ALGORITHMS)
    if group == "her":
        return sorted([*HER_PRESETS, *STRATEGIES])
    return list(conf_files(group))


def expand_overrides(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of overrides by config key.

    Overrides of groups, such as ``algo=sac``, are applied first, so that overrides of single keys replace their values.

    :param overrides: single values by key or short form; ``her={n_steps: 2}`` is ``her.n_steps=2``.
    """
    values: dict[str, Any] = {}
    for key, value in groups_first(flatten_sections(overrides, all_train_fields())):
        values |= _replace_short_form(key, value)
    return values


def groups_first(overrides: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the keys and values of overrides, sorted so that groups come first."""
    return sorted(overrides, key=lambda override: override[0] not in GROUPS)


def _replace_short_form(key: str, value: Any) -> dict[str, Any]:
    """Return the config keys and values that an override stands for."""
    if key in SHORT_KEYS:
        return {SHORT_KEYS[key]: value}
    if key == "recipe":
        return {key: str(value) if value else None}
    if key in GROUPS and (value in (None, "") or isinstance(value, Mapping)):
        raise UserError(f"{key}={value or 'null'}: {key} needs a name; use one of {', '.join(names_in_group(key))}.")
    if key == "her":
        name = "off" if value is False else str(value)  # YAML reads `off` as False
        return HER_PRESETS.get(name, {"her.goal_selection_strategy": name})
    if key == "algo" and re.fullmatch(r"[\w.]+:[\w.]+", str(value)):
        return {key: algorithm_of(value), "algo.model": value}
    return {key: str(value) if key in GROUPS else value}
