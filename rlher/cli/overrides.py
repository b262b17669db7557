"""Overrides: words such as ``algo.gamma=0.9``, in Hydra's grammar, as values by config key."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlher.cli.command import known_keys
from rlher.cli.groups import GROUPS, options
from rlher.cli.messages import closest_key, hydra_errors_as_user_errors, invalid_value, require_single
from rlher.config.algorithms import algorithm_of
from rlher.config.her import HER_PRESETS
from rlher.config.key import takes_list, takes_text
from rlher.config.override_syntax import quote_text, quote_value
from rlher.core.errors import UserError, first_line

HYDRA_SYNTAX = re.compile(r"[,(\[{$'\"]")
"""Characters of values that Hydra interprets, such as the commas of a sweep."""
CLASS_IN_MAPPING = re.compile(r"([{,]\s*[\w.]+):(\w+\s*:)")
"""``module:Class:`` in a mapping; Hydra's grammar needs its first colon escaped."""
SHORT_KEYS = {"space": "search_space", "demos": "demos.path"}
"""The key that each short form sets."""


def quote_override(word: str) -> str:
    """Return a word ``key=value`` as Hydra's grammar needs it: with quotes around texts and names of files."""
    name, _, value = word.partition("=")
    if HYDRA_SYNTAX.search(value) and not os.path.isfile(value):
        return CLASS_IN_MAPPING.sub(r"\1\\:\2", word)
    field = known_keys().get(SHORT_KEYS.get(name, name))
    return f"{name}={quote_text(value) if field and takes_text(field) else quote_value(value)}"


def parse_overrides(words: Sequence[str]) -> dict[str, Any]:
    """Return the values of overrides by config key. Those of groups come first, so that others override them.

    :raises UserError: one cannot be parsed, or has several values.
    """
    with hydra_errors_as_user_errors():
        parsed = OverridesParser.create().parse_overrides(list(words))
    require_single(parsed)
    # With + Hydra would accept any key, so a misspelt one would have no effect.
    pairs = [(override.get_key_element().lstrip("+"), override.value()) for override in parsed]
    values: dict[str, Any] = {}
    for key, value in sorted(pairs, key=lambda pair: pair[0] not in GROUPS):
        values |= _replace_short_form(key, value)
    return values


def _replace_short_form(key: str, value: Any) -> dict[str, Any]:
    """Return what an override stands for."""
    if key.startswith("algo.net_arch.") or (key == "algo.net_arch" and isinstance(value, dict)):
        key = key.replace("net_arch", "policy_kwargs.net_arch")  # {pi: [32], qf: [64]}, for actor and critic
    if isinstance(value, dict):
        return {key: value}
    if key in SHORT_KEYS:
        return {SHORT_KEYS[key]: value}
    if key == "recipe":
        return {key: str(value) if value else None}
    if key in GROUPS and value in (None, ""):
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
    for key, value in _by_key(values, keys):
        if not _is_known(key, keys):
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


def _by_key(values: Mapping[str, Any], keys: Mapping[str, Field], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings by dotted key; some keys take a mapping themselves."""
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and not _is_known(key, keys):
            yield from _by_key(value, keys, f"{key}.")
        else:
            yield key, value


def _is_known(key: str, keys: Mapping[str, Field]) -> bool:
    """Return whether a key is among config keys, or in one of them that is a mapping."""
    mappings = [name for name, field in keys.items() if "dict" in str(field.type)]
    return key in keys or any(key.startswith(f"{name}.") for name in mappings)
