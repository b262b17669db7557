"""JSON schema of a recipe, by which an editor completes and checks its keys."""

from dataclasses import Field
from types import UnionType
from typing import Any, get_args, get_origin

from rlher.config.key import dotted_keys
from rlher.config.training import all_train_keys
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
    for key, field in {**dotted_keys(OptimizeConfig), **all_train_keys()}.items():
        if not field.metadata.get("command_line_only"):
            *sections, name = key.split(".")
            properties = root["properties"]
            for section in sections:
                properties = properties.setdefault(section, _section())["properties"]
            properties[name] = _key(field)
    return root


def _section() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _key(field: Field) -> dict[str, Any]:
    names = {"low": "minimum", "high": "maximum", "choices": "enum"}
    limits = {names[rule]: limit for rule, limit in field.metadata.items() if rule in names}
    if field.metadata.get("may_name_code") and "enum" in limits:
        limits = {"anyOf": [{"enum": limits["enum"]}, {"pattern": ":"}]}
    return _value(field.type, limits) | {"description": field.metadata["text"]}


def _value(kind: Any, limits: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of values of a type; the limits of a list are those of its entries."""
    if isinstance(kind, UnionType):
        return {"anyOf": [_value(part, limits if part is not type(None) else {}) for part in get_args(kind)]}
    if get_origin(kind) is list:
        return {"type": "array", "items": _value(get_args(kind)[0], limits)}
    kind = get_origin(kind) or kind
    return ({"type": TYPES[kind]} if kind in TYPES else {}) | limits
