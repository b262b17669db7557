"""Setting the values of config keys, converted to the types of the keys.

OmegaConf's structured configs could not be used: they refuse a type such as that of ``algo.net_arch``, a whole number
written as ``1e5``, and texts that contain ``${`` or are ``???``, which a path or a title may be.
"""

import copy
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from rlher.config.algorithms import algorithms_with_key
from rlher.config.key import first_type, flatten_sections, values_by_key
from rlher.core.errors import UserError, did_you_mean


def set_values(config: Any, values: Mapping[str, Any]) -> None:
    """Set the values of dotted keys or nested sections, as :func:`set_value` does."""
    for key, value in flatten_sections(config, values):
        set_value(config, key, value)


def set_value(config: Any, key: str, value: Any) -> None:
    """Set the value of a dotted key of a config, converted to the type of the key.

    A key that holds a mapping, such as ``env.kwargs``, accepts any key below it: ``env.kwargs.n_bits`` sets one entry,
    and ``env.kwargs`` replaces the mapping.

    :param value: a value as YAML holds it. Text is converted as well, because flags are text.
    :raises UserError: there is no such key, or the key cannot take the value.
    """
    *sections, name = key.split(".")
    node, annotation = config, type(config)
    try:
        for section in sections:
            annotation = _type_of(node, annotation, section)
            node = getattr(node, section) if is_dataclass(node) else node.setdefault(section, {})
        annotation = _type_of(node, annotation, name)
        if is_dataclass(annotation):
            raise KeyError(key)
    except (KeyError, TypeError):
        raise UserError(f"there is no key {key!r}{_hint(config, key)}.") from None
    try:
        converted = _convert(value, annotation)
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError):
        raise UserError(f"{key}={value!r} is invalid; {key} is {_describe_type(annotation)}.") from None
    if isinstance(node, dict):
        node[name] = converted
    else:
        setattr(node, name, converted)


def _type_of(node: Any, annotation: Any, name: str) -> Any:
    """Return the type of the value that a name has in a node of a config.

    :param annotation: type of the node.
    :raises KeyError, TypeError: there is no such name, or the node is a value.
    """
    if isinstance(node, dict):
        return get_args(annotation)[1] if get_args(annotation) else Any
    return {field.name: field.type for field in fields(node)}[name]


def _hint(config: Any, key: str) -> str:
    """Return a hint for an unknown key: the algorithms that have the key, or else the most similar keys."""
    if owners := algorithms_with_key(key):
        return f": it is a key of algo={', algo='.join(owners)}"
    keys = values_by_key(config)
    section, _, name = key.rpartition(".")
    argument = f"; an argument without a key is {section}.kwargs.{name}" if f"{section}.kwargs" in keys else ""
    return did_you_mean(key, keys) + argument


def _convert(value: Any, annotation: Any) -> Any:
    """Return a value converted to the type of a config key.

    :raises TypeError, ValueError, LookupError, AttributeError, OverflowError: the value does not fit the type.
    """
    if annotation is Any:
        return copy.deepcopy(value)
    if isinstance(annotation, UnionType):  # `int | None`, or `list[int] | dict[str, list[int]]`
        first, other = get_args(annotation)
        if other is NoneType:
            return None if value is None else _convert(value, first)
        return _convert(value, other if isinstance(value, Mapping) else first)
    if get_origin(annotation) is dict:
        return {str(name): _convert(entry, get_args(annotation)[1]) for name, entry in value.items()}
    if value is None:
        raise TypeError
    if get_origin(annotation) is list:
        entries = value if isinstance(value, list | tuple) else [value]  # algo.net_arch=256
        return [_convert(entry, get_args(annotation)[0]) for entry in entries]
    if isinstance(value, list | tuple | dict):
        raise TypeError
    if annotation is bool:
        return {"true": True, "false": False}[str(value).lower()]
    if annotation is not str and isinstance(value, bool):
        raise TypeError
    if annotation in (int, float) and str(value).startswith("+"):  # total_timesteps=+5000 looks like an addition
        raise ValueError
    is_fraction = isinstance(value, float) and not value.is_integer()  # total_timesteps=1e5 is a whole number
    if annotation is int and is_fraction:
        raise ValueError
    return annotation(value)


def _describe_type(annotation: Any) -> str:
    annotation = first_type(annotation)
    if get_origin(annotation) is list:
        return f"a list whose entries are each {_describe_type(get_args(annotation)[0])}"
    descriptions = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "one text",
        Any: "a plain value",
    }
    return descriptions.get(annotation, "a mapping")
