"""Declaration, listing and validation of config keys. Their values are set in :mod:`rlher.config.assignment`."""

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from rlher.core.errors import UserError, did_you_mean
from rlher.core.nested import flatten

MAX_SEED = 4_000_000_000
"""Largest seed of a config. NumPy's seeds are below 2**32, so 294 million seeds are left to count up from this one."""

MAX_STEPS = 10**15
"""Largest number of steps of a run."""


@dataclass(frozen=True)
class KeyRules:
    """What is declared of a config key, besides its default.

    :param help: its line in ``--help``.
    :param is_param: whether the key is a parameter, see :func:`param`.
    :param low: smallest allowed number, also for each entry of a list.
    :param high: largest allowed number.
    :param length: number of entries of a list.
    :param choices: allowed values.
    :param positional: words without a flag set the key, such as the run folder of ``rlher enjoy <run>``.
    :param names_code: how the value may name the user's own code, see :mod:`rlher.core.user_code`. With
        ``"module:name"``, a text without a colon is one of rlher's names. With ``"any"``, any text may name code.
    :param may_differ_in_group: runs of one group, whose mean is one learning curve, may differ in the parameter.
    :param changeable_on_resume: the parameter may change when a run is resumed.
    :param argument_of: what takes the value of an ``algo.`` key as the argument of the same name: the algorithm's
        ``"constructor"`` or its ``"policy"``. If empty, :mod:`rlher.run.build_model` makes other arguments from it.
    """

    help: str = ""
    is_param: bool = False
    low: float | None = None
    high: float | None = None
    length: int | None = None
    choices: tuple[str, ...] = ()
    positional: bool = False
    names_code: Literal["", "module:name", "any"] = ""
    may_differ_in_group: bool = False
    changeable_on_resume: bool = False
    argument_of: Literal["constructor", "policy", ""] = "constructor"


def setting(default: Any, help: str, **options: Any) -> Any:
    """Declare a config key that changes nothing that a run learns or measures: a key for speed, folders or display.

    :param help: its line in ``--help``.
    :param options: further fields of :class:`KeyRules`.
    :return: a dataclass field.
    """
    return _declare(default, KeyRules(help, is_param=False, **options))


def param(default: Any, help: str, **options: Any) -> Any:
    """Declare a parameter of training runs: a config key that changes what a run learns or measures.

    Runs with the same values of all parameters are repetitions of one experiment. The arguments are those of
    :func:`setting`.
    """
    return _declare(default, KeyRules(help, is_param=True, **options))


def _declare(default: Any, rules: KeyRules) -> Any:
    metadata = {"rules": rules}
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def with_default(config: type, name: str, default: Any) -> Any:
    """Declare a key of a config dataclass again, for a subclass with another default.

    :return: a dataclass field.
    """
    return _declare(default, keys_of(config)[name].rules)


@dataclass(frozen=True)
class Key:
    """A config key with its value, made from a field of a config.

    :param name: dotted name, such as ``algo.gamma``.
    :param type: type of the value, as it is annotated.
    """

    name: str
    type: Any
    default: Any
    value: Any
    rules: KeyRules

    @property
    def takes_list(self) -> bool:
        """Whether the value is a list."""
        return get_origin(first_type(self.type)) is list

    @property
    def takes_text(self) -> bool:
        """Whether the value is a text."""
        return self.type in (str, str | None)


def keys_of(config: Any, prefix: str = "") -> dict[str, Key]:
    """Return the keys of a config and of its sections by dotted name.

    :param config: a config, or its dataclass, of which the values are the defaults.
    :param prefix: put before each name.
    """
    config = config() if isinstance(config, type) else config
    keys: dict[str, Key] = {}
    for field in fields(config):
        name, value = prefix + field.name, getattr(config, field.name)
        if is_dataclass(value):
            keys |= keys_of(value, f"{name}.")
        else:
            default = field.default if field.default_factory is MISSING else field.default_factory()
            keys[name] = Key(name, field.type, default, value, field.metadata.get("rules", KeyRules()))
    return keys


def first_type(annotation: Any) -> Any:
    """Return the first type of a union, such as ``int`` of ``int | None``, and any other type as it is."""
    return get_args(annotation)[0] if isinstance(annotation, UnionType) else annotation


def values_by_key(config: Any, prefix: str = "") -> dict[str, Any]:
    """Return the values of a config and of its sections by dotted name, see :func:`keys_of`."""
    return {name: key.value for name, key in keys_of(config, prefix).items()}


def flatten_sections(config: Any, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield values by dotted key. The values may be nested in the sections of a config.

    A mapping that is a value, such as that of ``her.goal_mix``, stays whole.
    """

    def is_section(key: str, _: Mapping[str, Any]) -> bool:
        node = config
        for name in key.split("."):
            node = getattr(node, name, None)
        return is_dataclass(node)

    return flatten(values, is_section)


def param_values(config: Any) -> dict[str, Any]:
    """Return the values of all parameters by dotted key, see :func:`param`.

    :return: the values as they are after a round trip through JSON, for example a list in place of a tuple.
    """
    return {
        name: json.loads(json.dumps(key.value, default=str))
        for name, key in keys_of(config).items()
        if key.rules.is_param
    }


def changed_values(
    recorded: Mapping[str, Any], values: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Return the recorded and the present value of each key whose value has changed.

    A key that is not recorded was added to rlher later. Earlier runs behaved as with its default.

    :param recorded: values of :func:`param_values`, perhaps of an earlier version of rlher.
    :param values: the present values.
    :param defaults: the defaults of the same keys.
    """
    before = {**defaults, **recorded}
    keys = {**before, **values}
    return {key: (before.get(key), values.get(key)) for key in keys if before.get(key) != values.get(key)}


def validate(config: Any) -> None:
    """Raise UserError if a value of a config dataclass is out of the range or choices of its declaration.

    A section with further rules has a method ``validate``.
    """
    for key in keys_of(config).values():
        if key.value is not None:
            _validate_value(key.name, key.value, key.rules)
    for part in (config, *(getattr(config, field.name) for field in fields(config))):
        if hasattr(part, "validate"):
            part.validate()


def _validate_value(key: str, value: Any, rules: KeyRules) -> None:
    if rules.choices and value not in rules.choices and not (rules.names_code and ":" in str(value)):
        or_code = ", nor module:name of your own" if rules.names_code else ""
        longer = [choice for choice in rules.choices if choice.endswith(str(value))]  # tex: latex, and not text
        hint = did_you_mean(str(value), longer or rules.choices)
        raise UserError(f"{key}={value!r} is not one of {', '.join(rules.choices)}{or_code}{hint}.")
    if isinstance(value, list):
        if rules.length is not None and len(value) != rules.length:
            raise UserError(f"{key}={value} needs {rules.length} entries, not {len(value)}.")
        for entry in value:
            if entry is not None:
                _validate_value(key, entry, rules)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{key}={value} is not a finite number.")
        if rules.low is not None and value < rules.low:
            raise UserError(f"{key}={value} is too small; it must be at least {rules.low:g}.")
        if rules.high is not None and value > rules.high:
            raise UserError(f"{key}={value} is too large; it must be at most {rules.high:,}.")
