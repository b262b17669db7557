"""Values in Hydra's override grammar, as one would type them on the command line."""

import re
from typing import Any


def quote(value: str) -> str:
    """Quote a value for Hydra's override grammar, in which ``=``, ``?``, spaces and brackets mean something."""
    if re.fullmatch(r"[\w./:+-]+", value, re.ASCII):
        return value
    # Between quotes a backslash is itself, except before a quote.
    return "'" + re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value) + "'"


def literal(value: Any) -> str:
    """Write a value as one would type it on the command line."""
    if isinstance(value, list | tuple):
        return f"[{','.join(literal(entry) for entry in value)}]"
    if isinstance(value, dict):
        escaped = {str(name).replace(":", "\\:"): literal(entry) for name, entry in value.items()}
        return f"{{{','.join(f'{name}:{entry}' for name, entry in escaped.items())}}}"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return quote(str(value))
