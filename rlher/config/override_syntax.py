"""Values in Hydra's override grammar, as one would type them on the command line."""

import re
from typing import Any

from rlher.core.errors import UserError


def quote(value: str) -> str:
    """Quote a value for Hydra's override grammar, in which ``=``, ``?``, spaces and brackets mean something."""
    if re.fullmatch(r"[\w./:+-]+", value, re.ASCII):
        return value
    value = re.sub(r"(\\*)\$\{", r"\1\1\\${", value)  # the name of a file is no interpolation
    # Between quotes a backslash is itself, except before a quote.
    return "'" + re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value) + "'"


def literal(value: Any) -> str:
    """Write a value as one would type it on the command line.

    :raises UserError: a name in a mapping has a character that Hydra's grammar does not allow.
    """
    if isinstance(value, list | tuple):
        return f"[{','.join(literal(entry) for entry in value)}]"
    if isinstance(value, dict):
        if odd := next((name for name in map(str, value) if not re.fullmatch(r"[\w./:+ -]+", name)), None):
            raise UserError(f"{odd!r} cannot be the name of a value; use letters, digits and ./:+_-.")
        escaped = {str(name).replace(":", "\\:"): literal(entry) for name, entry in value.items()}
        return f"{{{','.join(f'{name}:{entry}' for name, entry in escaped.items())}}}"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return quote(str(value))
