"""Overrides: values by config key or short form, of words such as ``algo.gamma=0.9`` in Hydra's grammar."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field
from types import SimpleNamespace
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlher.cli.command import known_keys
from rlher.cli.groups import GROUPS, options
from rlher.cli.messages import closest_key, hydra_errors_as_user_errors, invalid_value
from rlher.config.algorithms import algorithm_of
from rlher.config.her import HER_PRESETS
from rlher.config.key import takes_list, takes_text
from rlher.config.override_syntax import PLAIN, literal
from rlher.core.errors import UserError, first_line
from rlher.core.nested import flatten

HYDRA_SYNTAX = re.compile(r"[,(\[{$'\"]")
"""Characters of values that Hydra interprets, such as the commas of a sweep."""
CLASS_IN_MAPPING = re.compile(r"([{,]\s*[\w.]+):(\w+\s*:)")
"""``module:Class:`` in a mapping; Hydra's grammar needs its first colon escaped."""
SHORT_KEYS = {"space": "search_space", "demos": "demos.path"}
"""The key that each short form sets."""


def text_value(text: str) -> str | None:
    """Return the value of a key that takes text; ``null`` is the word for None."""
    return None if text.lower() == "null" else literal(text)


def parse_override(word: str, config_dirs: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Return the values of a word ``key=value`` by key; several values are those of a sweep.

    :raises UserError: Hydra's grammar does not allow it, or its sweep is empty.
    """
    name, _, text = word.partition("=")
    key = name.lstrip("+")  # with + Hydra would accept any key, so a misspelt one would have no effect
    field = known_keys().get(SHORT_KEYS.get(key, key))
    is_text = field and (takes_text(field) or text.startswith("+"))  # total_timesteps=+5000: that many more
    if (is_text or not PLAIN.fullmatch(text)) and (os.path.isfile(text) or not HYDRA_SYNTAX.search(text)):
        return {key: [text_value(text)]}
    # Hydra asks for the names that env=glob(Fetch*) may match.
    loader: Any = SimpleNamespace(get_group_options=lambda group, results_filter: options(group, config_dirs))
    parser = OverridesParser.create(loader)
    with hydra_errors_as_user_errors():
        (override,) = parser.parse_overrides([CLASS_IN_MAPPING.sub(r"\1\\:\2", f"{key}={text}")])
        if not override.is_sweep_override():
            return {key: [value] for key, value in flatten({key: override.value()})}
        values = [parser.parse_override(f"{key}={each}").value() for each in override.sweep_string_iterator()]
    if not values:
        raise UserError(f"{word} has no values; check its limits or its pattern.")
    return {key: values}


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
            raise UserError(f"{unknown_key_message} {key!r}{closest_key(key, keys)}.")
        field = keys.get(key)
        if field and not takes_text(field) and isinstance(value, float) and value.is_integer():
            value = int(value)  # total_timesteps=1e5; OmegaConf refuses a float for a whole number
        if field and takes_list(field) and not isinstance(value, list | None):
            value = [value]  # algo.net_arch=256
        try:
            OmegaConf.update(config, key, value, force_add=True)
        except OmegaConfBaseException as error:
            raise UserError(invalid_value(key, value, first_line(error))) from None
