"""Declaring, listing and validating config keys; the dataclasses of this package are the schemas of ``conf/``."""

import math
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Any, TypeVar

from omegaconf import OmegaConf

from rlher.core.errors import UserError, did_you_mean

ConfigT = TypeVar("ConfigT")


def key(
    default: Any,
    text: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare one config key: its default, its one-line text, and the closed range or choices it must lie in."""
    limits = {"text": text, "low": low, "high": high, "choices": choices}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=limits)
    return field(default=default, metadata=limits)


def to_object(cfg: Any, schema: type[ConfigT]) -> ConfigT:
    """Turn a composed config into its dataclass, every value in range.

    :raises UserError: a value is out of its range, not among its choices, or missing.
    """
    config = OmegaConf.to_object(cfg)
    if not isinstance(config, schema):
        raise TypeError(f"the config was composed as {type(config).__name__}, not {schema.__name__}")
    validate(config)
    return config


def validate(config: Any, prefix: str = "") -> None:
    """Hold every key of a config dataclass against the limits its :func:`key` declares.

    :raises UserError: naming the key, the value and what would be accepted.
    """
    for item in fields(config):
        value, name = getattr(config, item.name), prefix + item.name
        if is_dataclass(value):
            validate(value, name + ".")
        elif value is not None and value is not MISSING:
            _check_value(name, value, item)


def _check_value(name: str, value: Any, item: Field) -> None:
    low, high, choices = (item.metadata.get(limit) for limit in ("low", "high", "choices"))
    if choices and value not in choices:
        raise UserError(f"{name}={value!r} is not one of {', '.join(choices)}{did_you_mean(str(value), choices)}.")
    for entry in value if isinstance(value, list) else []:
        if entry is not None:
            _check_value(name, entry, item)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise UserError(f"{name}={value} is not a finite number.")
        if low is not None and value < low:
            raise UserError(f"{name}={value} is too small: it must be at least {low:g}.")
        if high is not None and value > high:
            raise UserError(f"{name}={value} is too large: it must be at most {high:g}.")


def dotted_keys(schema: type | Any, prefix: str = "") -> dict[str, Field]:
    """List a schema's keys, dotted, with their fields: what ``--help`` prints and spelling is checked against."""
    found: dict[str, Field] = {}
    for item in fields(schema):
        nested = item.default_factory() if item.default_factory is not MISSING else None
        if is_dataclass(nested):
            found |= dotted_keys(nested, f"{prefix}{item.name}.")
        else:
            found[prefix + item.name] = item
    return found
