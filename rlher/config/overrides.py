"""Overrides: values by config key or short form, such as ``{"algo": "sac", "algo.gamma": 0.9}``.

They are read from words ``key=value`` of a command line, in Hydra's override grammar, or from Python values, and can be
written as words again.
"""

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from rlher.config.algorithms import ALGORITHMS, algorithm_of
from rlher.config.conf_files import conf_files
from rlher.config.her import HER_PRESETS
from rlher.config.key import Key, flatten_sections
from rlher.config.training import RunConfig
from rlher.core.errors import UserError, first_line
from rlher.her.strategies import STRATEGIES

CONFIG_GROUPS = ("algo", "env", "her", "recipe")
"""Keys whose value is the name of a set of values, such as ``algo=sac``, ``--algo sac`` and ``env=FetchReach-v4``."""

CLASS_IN_MAPPING = re.compile(r"([{,]\s*[\w.]+):(\w+\s*:)")
"""``module:Class:`` in a mapping; Hydra's grammar needs its first colon escaped."""

PLAIN = re.compile(r"(?!(true|false|null|inf|nan)$|[.]\d)[a-z_/.][\w./:+-]*", re.IGNORECASE | re.ASCII)
"""Texts that Hydra reads as text without quotes. Others may be a number or another value."""


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
    for key, value in groups_first(flatten_sections(RunConfig(), overrides)):
        values |= _expand_override(key, value)
    return values


def groups_first(overrides: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the keys and values of overrides, sorted so that groups come first."""
    return sorted(overrides, key=lambda override: override[0] not in CONFIG_GROUPS)


def _expand_override(key: str, value: Any) -> dict[str, Any]:
    """Return the config keys and values that an override stands for."""
    if key == "demos":
        return {"demos.path": value}
    if key == "recipe":
        return {key: str(value) if value else None}
    if key in CONFIG_GROUPS and (value in (None, "") or isinstance(value, Mapping)):
        raise UserError(f"{key}={value or 'null'}: {key} needs a name; use one of {', '.join(names_in_group(key))}.")
    if key == "her":
        name = "off" if str(value).lower() == "false" else str(value)  # YAML reads `off` as False
        return HER_PRESETS.get(name, {"her.goal_selection_strategy": name})
    if key == "algo" and re.fullmatch(r"[\w.]+:[\w.]+", str(value)):
        return {key: algorithm_of(value), "algo.model_class": value}
    return {key: str(value) if key in CONFIG_GROUPS else value}


# ------------------------------------------------------------------------------------------------ reading


def parse_value(name: str, text: str, key: Key | None, is_sweep: bool) -> Any:
    """Return the value of ``name=text`` or ``--name text``, or :class:`SweepValues` if the text has several values.

    Values have Hydra's grammar. Outside of a sweep there are two exceptions: the value of a key that takes text is the
    text as it is, unless it is quoted (``title=a, b``), and the brackets of a list may be left out (``by=algo,seed``).

    :param key: the config key, None if the name is that of a group or of no key.
    :param is_sweep: whether the command line has ``-m``.
    :raises UserError: Hydra's grammar does not allow the text, or a sweep in it is empty.
    """
    if text.lower() == "null":
        return None
    is_text = key is not None and key.takes_text
    if is_text and not is_sweep and text.lstrip()[:1] not in ("'", '"'):
        return text
    is_list = key is not None and key.takes_list and not is_sweep
    if is_list and not text:
        return []
    value = text if PLAIN.fullmatch(text) else _parse_by_hydra(name, text)
    if is_text and not isinstance(value, str | SweepValues):  # -m logs=2024_11
        return text
    return list(value) if is_list and isinstance(value, SweepValues) else value


def _parse_by_hydra(key: str, text: str) -> Any:
    """Return the value of ``key=text`` in Hydra's grammar.

    :raises UserError: the grammar does not allow the text, or a sweep in it is empty.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser  # takes a tenth of a second
    from hydra.errors import HydraException, OverrideParseException

    # Hydra asks for the names that env=glob(Fetch*) may match.
    loader: Any = SimpleNamespace(get_group_options=lambda group, results_filter: names_in_group(group))
    parser = OverridesParser.create(loader)
    try:
        (override,) = parser.parse_overrides([CLASS_IN_MAPPING.sub(r"\1\\:\2", f"{key}={text}")])
        if not override.is_sweep_override():
            return override.value()
        texts = override.sweep_string_iterator()
        values = SweepValues(parser.parse_override(f"{key}={each}").value() for each in texts)
    except OverrideParseException:
        why = "a bracket or quote is not closed, or a value with spaces, brackets or = is not quoted"
        raise UserError(f"{key}=... cannot be parsed: {why}; quote it as \"{key}='...'\".") from None
    except (HydraException, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{key}=... cannot be parsed: {first_line(error)}.") from None
    if not values:
        raise UserError(f"{key}={text} has no values; check its limits or its pattern.")
    return values if len(values) > 1 else values[0]


def to_plain_value(value: Any) -> Any:
    """Return nested values with functions and classes as ``module:name``, and NumPy values as Python values.

    :raises UserError: a config cannot hold one of the values.
    """
    if isinstance(value, Mapping):
        return {to_plain_value(name): to_plain_value(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return list(map(to_plain_value, value))
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
    """Write a value, or the values of a sweep, as one would type it on the command line.

    :raises UserError: a name in a mapping has a character that Hydra's grammar does not allow.
    """
    if isinstance(value, SweepValues):
        return ",".join(map(override_text, value))
    if isinstance(value, list | tuple):
        return f"[{','.join(override_text(entry) for entry in value)}]"
    if isinstance(value, dict):
        for name in map(str, value):
            if not re.fullmatch(r"[\w./:+ -]+", name):
                raise UserError(f"{name!r} cannot be the name of a value; use letters, digits and ./:+_-.")
        escaped = {str(name).replace(":", "\\:"): override_text(entry) for name, entry in value.items()}
        return f"{{{','.join(f'{name}: {entry}' for name, entry in escaped.items())}}}"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    text = str(value)
    if isinstance(value, int | float) or PLAIN.fullmatch(text):
        return text
    # Between quotes a backslash needs no escape, except directly before a quote or at the end: double it there.
    text = re.sub(r"(\\+)(?='|\Z)", r"\1\1", text)
    return "'" + text.replace("'", "\\'") + "'"


def command_text(name: str, overrides: Mapping[str, Any], *words: str) -> str:
    """Return a command line of rlher with these overrides.

    :param name: name of the command.
    :param words: words before the overrides.
    """
    return shlex.join(["rlher", name, *words, *override_words(overrides)])


def override_words(values: Mapping[str, Any]) -> list[str]:
    """Return the words ``key=value`` of a command line that sets these values."""
    return [f"{key}={override_text(value)}" for key, value in values.items()]
