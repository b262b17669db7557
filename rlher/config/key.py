"""Declaration, listing and validation of config keys."""

import functools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Any, Literal, TypedDict, Unpack, get_args

from omegaconf import OmegaConf

from rlher.core.errors import UserError, did_you_mean

Purpose = Literal["experiment", "grouping", "recipe", "resume"]
"""What the values of a run's keys are compared or written for.

``experiment``: find the runs of one experiment, see :func:`rlher.config.training.experiment_id`; ``grouping``: put runs
into one learning curve; ``recipe``: write a recipe; ``resume``: refuse to continue a run with other values.
"""

MAX_SEED = 4_000_000_000
"""Largest seed of a config. NumPy's are below 2**32: this leaves 294 million for episodes and seeds that count up."""

MAX_STEPS = 10**15
"""Largest number of steps of a run."""

MAX_EPISODES = 100_000_000
"""Largest number of episodes of a command; their seeds count up from a seed of at most :data:`MAX_SEED`."""


class KeyRules(TypedDict, total=False):
    """What a config key may declare besides its default and its text.

    :param ignored_by: purposes that ignore the value of the key.
    :param low: smallest allowed number; for a list, of each entry.
    :param high: largest allowed number.
    :param length: number of entries of a list.
    :param choices: allowed values.
    :param positional: set by words without a flag, such as the run folder of ``rlher enjoy <run>``.
    :param may_name_code: its value may name the user's own code as ``module:name``, see :mod:`rlher.core.user_code`.
    :param command_line_only: a recipe file must not set it.
    """

    ignored_by: Sequence[Purpose]
    low: float
    high: float
    length: int
    choices: tuple[str, ...]
    positional: bool
    may_name_code: bool
    command_line_only: bool


def config_key(default: Any, text: str, **rules: Unpack[KeyRules]) -> Any:
    """Declare a config key; use :func:`experiment_key` or :func:`runtime_key`.

    :param text: its line in ``--help``.
    :return: a dataclass field.
    """
    metadata = {"text": text, **rules}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


experiment_key = functools.partial(config_key, ignored_by=())
"""A key that changes what is learnt or measured; other ``ignored_by`` are given where they are needed."""

runtime_key = functools.partial(config_key, ignored_by=get_args(Purpose))
"""A key that changes where and how fast a run is computed, or what is written and shown."""


def section(config: type, text: str, choice: str | None = None) -> Any:
    """Declare a nested config, whose keys are ``<section>.<key>``.

    :param choice: what ``<section>=`` is by default, if it takes the name of an algorithm or environment.
    :return: a dataclass field.
    """
    return field(default_factory=config, metadata={"text": text, "choice": choice})


def default_of(item: Field) -> Any:
    """Return the default of a key or section."""
    return item.default if item.default_factory is MISSING else item.default_factory()


def takes_list(item: Field) -> bool:
    """Return whether the value of a key is a list."""
    return str(item.type).startswith("list")


def values_by_key(config: Any, prefix: str = "") -> Iterator[tuple[str, Field, Any]]:
    """Yield the dotted keys of a config and of its sections, each with its field and its value."""
    for item in fields(config):
        value, name = getattr(config, item.name), prefix + item.name
        if is_dataclass(value):
            yield from values_by_key(value, f"{name}.")
        else:
            yield name, item, value


def dotted_keys(schema: type, prefix: str = "") -> dict[str, Field]:
    """Return the fields of a config dataclass and of its sections by dotted key."""
    return {name: item for name, item, _ in values_by_key(schema(), prefix)}


def compared_values(config: Any, purpose: Purpose) -> dict[str, Any]:
    """Return the values of a config by dotted key, without those that a purpose ignores.

    :return: as JSON returns them, for example with lists in the place of tuples.
    """
    return {
        name: json.loads(json.dumps(value, default=str))
        for name, item, value in values_by_key(config)
        if purpose not in item.metadata["ignored_by"]
    }


def to_object(cfg: Any) -> Any:
    """Return a composed config as its dataclass.

    :raises UserError: a value is missing, out of its range, or not among its choices.
    """
    config = OmegaConf.to_object(cfg)
    validate(config)
    return config


def validate(config: Any) -> None:
    """Raise UserError if a value of a config dataclass is out of the range or choices of its :func:`config_key`.

    A section with further rules has a method ``validate``.
    """
    for name, item, value in values_by_key(config):
        if value is not None:
            _validate_value(name, value, item)
    for part in (config, *(getattr(config, item.name) for item in fields(config))):
        if hasattr(part, "validate"):
            part.validate()


def _validate_value(name: str, value: Any, item: Field) -> None:
    low, high, length, choices = (item.metadata.get(limit) for limit in ("low", "high", "length", "choices"))
    if choices and value not in choices and not (item.metadata.get("may_name_code") and ":" in str(value)):
        own = ", nor module:name of your own" if item.metadata.get("may_name_code") else ""
        near = [choice for choice in choices if choice.endswith(str(value))] or choices  # tex: latex, and not text
        raise UserError(f"{name}={value!r} is not one of {', '.join(choices)}{own}{did_you_mean(str(value), near)}.")
    if length is not None and isinstance(value, list) and len(value) != length:
        raise UserError(f"{name}={value} needs {length} entries, not {len(value)}.")
    for entry in value if isinstance(value, list) else []:
        if isinstance(entry, list | dict) and item.type not in (Any, list[Any]):
            raise UserError(f"{name}={value} must be a flat list of values.")
        if entry is not None:
            _validate_value(name, entry, item)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise UserError(f"{name}={value} is not a finite number.")
        if low is not None and value < low:
            raise UserError(f"{name}={value} is too small; it must be at least {low:g}.")
        if high is not None and value > high:
            raise UserError(f"{name}={value} is too large; it must be at most {high:,}.")
