"""Overrides: values by config key or short form, such as ``{"algo": "sac", "algo.gamma": 0.9}``.

They are read from words ``key=value`` of a command line, or from Python values, and can be written as words again.
"""

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import Field
from types import UnionType
from typing import Any

from rlher.config.algorithms import ALGORITHMS, algorithm_of
from rlher.config.conf_files import conf_files
from rlher.config.her import HER_PRESETS
from rlher.config.key import dotted_values, takes_list, takes_text
from rlher.config.training import TrainConfig
from rlher.core.errors import UserError, first_line
from rlher.core.reading import dump_yaml_value, parse_yaml_value
from rlher.her.strategies import STRATEGIES

GROUPS = ("algo", "env", "her", "recipe")
"""Keys whose value is the name of a set of values, such as ``algo=sac``, ``--algo sac`` and ``env=FetchReach-v4``."""

SHORT_KEYS = {"demos": "demos.path"}
"""The key that each short form sets."""


class SweepValues(list):
    """The values of a key in a sweep. Each run of the sweep has one of them."""


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
    for key, value in groups_first(dotted_values(TrainConfig(), overrides)):
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
        name = "off" if str(value).lower() == "false" else str(value)  # YAML reads `off` as False
        return HER_PRESETS.get(name, {"her.goal_selection_strategy": name})
    if key == "algo" and re.fullmatch(r"[\w.]+:[\w.]+", str(value)):
        return {key: algorithm_of(value), "algo.model_class": value}
    return {key: str(value) if key in GROUPS else value}


# ------------------------------------------------------------------------------------------------ reading


def parse_value(key: str, text: str, field: Field | None, is_sweep: bool) -> Any:
    """Return the value of ``key=text`` or ``--key text``, or :class:`SweepValues` if the text has several values.

    A value is written as in the YAML files, see :func:`~rlher.core.reading.parse_yaml_value`. A text needs no quotes,
    and a list no brackets: ``title=a, b`` is one text, and ``by=algo,seed`` is a list. The values of a sweep are
    separated as in Hydra, by commas or with ``range(10)``: there, ``title=a,b`` has two.

    :param field: field of the key, None if no config dataclass has the key.
    :param is_sweep: whether the command line has ``-m``.
    :raises UserError: the text is not valid YAML, or a sweep in it is empty.
    """
    takes_commas = _is_text(key, field) or (field is not None and takes_list(field))
    values = None
    if (is_sweep or not takes_commas) and re.search(r"[,(]", text):
        values = _sweep_values(key, text, _is_text(key, field))  # without -m, they are refused later
    return values or _single_value(key, text, field)


def _is_text(key: str, field: Field | None) -> bool:
    """Return whether the value of a key is a text, such as the name of a group."""
    return takes_text(field) if field else key in GROUPS


def _single_value(key: str, text: str, field: Field | None) -> Any:
    opening = text.lstrip()[:1]
    is_quoted = opening in ("'", '"')
    if text.lower() == "null":
        return None
    if _is_text(key, field) and not is_quoted and (field or opening != "{"):  # her={n_steps: 2}
        return text
    if field and takes_list(field) and opening != "[":
        if field.type == list[str] and not is_quoted:
            return [entry.strip() for entry in text.split(",") if entry.strip()]
        takes_mapping = isinstance(field.type, UnionType)  # algo.net_arch={pi: [64], qf: [64]}
        if not (opening == "{" and takes_mapping):
            text = f"[{text}]"
    try:
        return _split_at_colons(parse_yaml_value(text))
    except ValueError as error:
        raise UserError(f"{key}=... cannot be parsed: {error}; quote a text as \"{key}='...'\".") from None


def _split_at_colons(value: Any) -> Any:
    """Return nested values in which ``{n_bits:4}`` is an entry, as in Hydra. In YAML, a space must follow the colon."""
    if isinstance(value, list):
        return list(map(_split_at_colons, value))
    if not isinstance(value, dict):
        return value
    entries = {}
    for name, entry in value.items():
        before, colon, after = str(name).partition(":")
        is_split = entry is None and colon
        entries[before if is_split else name] = parse_yaml_value(after) if is_split else _split_at_colons(entry)
    return entries


def _sweep_values(key: str, text: str, is_text: bool) -> SweepValues | None:
    """Return the values of a sweep in Hydra's grammar, or None if the text is a single value.

    :param is_text: whether numbers among the values are texts, such as ``2024_11``.
    :raises UserError: the sweep is empty, or has a value that Hydra's grammar does not allow.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser  # takes a tenth of a second
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    try:
        override = parser.parse_override(f"{key}={text}")
        if not override.is_sweep_override():
            return None
        texts = [*override.sweep_string_iterator()]
        values = [parser.parse_override(f"{key}={each}").value() for each in texts]
    except (HydraException, ValueError, TypeError, RecursionError) as error:
        if "," not in text or text.lstrip()[:1] in "[{":  # such as ~/x and {module:Class: {argument: 1}}
            return None
        raise UserError(f"{key}=... cannot be parsed: {first_line(error)}; quote each value.") from None
    if not texts:
        raise UserError(f"{key}={text} has no values; check its limits.")
    pairs = zip(texts, values, strict=True)
    return SweepValues(each if is_text and isinstance(value, int | float) else value for each, value in pairs)


def config_value(value: Any) -> Any:
    """Return nested values with functions and classes as ``module:name``, and NumPy values as Python values.

    :raises UserError: a config cannot hold one of the values.
    """
    if isinstance(value, Mapping):
        return {config_value(name): config_value(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return list(map(config_value, value))
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    if isinstance(value, int | float | None):
        return value
    name = getattr(value, "__qualname__", None)
    if name is None:
        advice = "give a name, number, list or {Class: arguments}"
        raise UserError(f"a config cannot hold {type(value).__name__}; {advice}.")
    if value.__module__ == "__main__" or not name.isidentifier():
        advice = "define it at the top level in a module of your own, not in the script or notebook that runs"
        raise UserError(f"{name} cannot be imported by name, as evaluating or resuming the run must; {advice}.")
    return f"{value.__module__}:{name}"


# ------------------------------------------------------------------------------------------------ writing


def override_text(value: Any) -> str:
    """Write a value, or the values of a sweep, as one would type it on the command line."""
    if isinstance(value, SweepValues):
        return ",".join(map(override_text, value))
    if (
        isinstance(value, str)
        and re.fullmatch(r"[^\s\[{'\",]([^,]*[^\s,])?", value)
        and parse_yaml_value(value) == value
    ):
        return value  # without quotes
    is_finite = isinstance(value, float) and math.isfinite(value)
    return str(value) if is_finite else dump_yaml_value(value)


def override_words(values: Mapping[str, Any]) -> list[str]:
    """Return the words ``key=value`` of a command line that sets these values."""
    return [f"{key}={override_text(value)}" for key, value in values.items()]
