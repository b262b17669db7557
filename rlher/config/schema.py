"""JSON schema of a recipe, by which an editor completes and checks its keys."""

from dataclasses import Field
from types import UnionType
from typing import Any, get_args, get_origin

from rlher.config.key import dotted_keys
from rlher.config.training import run_keys
from rlher.config.tuning import OptimizeConfig

TYPES = {
    int: "integer",
    float: "number",
    bool: "boolean",
    str: ["string", "number", "boolean"],  # ent_coef: 0.1 is read as text
    dict: "object",
    type(None): "null",
}
"""JSON schema's names of the types of values."""


def recipe_schema() -> dict[str, Any]:
    """Return the schema of the files in ``hyperparams/``; ``algo`` has the keys of every algorithm."""
    root: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#"} | _section()
    for name, item in (dotted_keys(OptimizeConfig) | run_keys()).items():
        if not item.metadata.get("command_line_only") and "recipe" not in name:
            *sections, key = name.split(".")
            properties = root["properties"]
            for each in sections:
                properties = properties.setdefault(each, _section())["properties"]
            properties[key] = _key(item)
    return root


def _section() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _key(item: Field) -> dict[str, Any]:
    names = {"low": "minimum", "high": "maximum", "choices": "enum"}
    limits = {names[rule]: limit for rule, limit in item.metadata.items() if rule in names}
    if item.metadata.get("may_name_code") and "enum" in limits:
        limits = {"anyOf": [{"enum": limits["enum"]}, {"pattern": ":"}]}
    return _value(item.type, limits) | {"description": item.metadata["text"]}


def _value(kind: Any, limits: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of values of a type; the limits of a list are those of its entries."""
    if isinstance(kind, UnionType):
        return {"anyOf": [_value(each, limits if each is not type(None) else {}) for each in get_args(kind)]}
    if get_origin(kind) is list:
        return {"type": "array", "items": _value(get_args(kind)[0], limits)}
    kind = get_origin(kind) or kind
    return ({"type": TYPES[kind]} if kind in TYPES else {}) | limits
