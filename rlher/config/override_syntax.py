"""Values in Hydra's override grammar, as one would type them on the command line."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlher.core.errors import UserError

PLAIN = re.compile(r"[\w./:+-]+", re.ASCII)
"""Values that need no quotes."""

NO_TEXT = re.compile(r"[+-]?(\.?\d[\d_.]*(e[+-]?[\d_]+)?|inf|nan)|true|false|null", re.IGNORECASE | re.ASCII)
"""What Hydra reads as a number, a boolean or None if it is not quoted."""


def literal(text: str) -> str:
    """Return a text as OmegaConf takes it, in which ``${`` would begin an interpolation: names of files may have it."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", text)


def split_name(word: str) -> tuple[str, str]:
    """Return the folder and the name of ``NAME=folder``; the name of a plain folder is empty.

    Both may contain ``=``: the folder is the first that exists, or else all after the first ``=``.
    """
    if Path(word).exists() or "=" not in word:
        return word, ""
    parts = word.split("=")
    splits = [("=".join(parts[index:]), "=".join(parts[:index])) for index in range(1, len(parts))]
    return next((split for split in splits if Path(split[0]).exists()), splits[0])


def override_value(value: Any) -> str:
    """Write a value as one would type it on the command line.

    :raises UserError: a name in a mapping has a character that Hydra's grammar does not allow.
    """
    if isinstance(value, list | tuple):
        return f"[{','.join(override_value(entry) for entry in value)}]"
    if isinstance(value, dict):
        for name in map(str, value):
            if not re.fullmatch(r"[\w./:+ -]+", name):
                raise UserError(f"{name!r} cannot be the name of a value; use letters, digits and ./:+_-.")
        escaped = {str(name).replace(":", "\\:"): override_value(entry) for name, entry in value.items()}
        return f"{{{','.join(f'{name}:{entry}' for name, entry in escaped.items())}}}"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    text = str(value)
    if isinstance(value, int | float) or (PLAIN.fullmatch(text) and not NO_TEXT.fullmatch(text)):
        return text
    # Between quotes a backslash is itself, except before a quote.
    return "'" + re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text) + "'"


def override_words(values: Mapping[str, Any]) -> list[str]:
    """Return the words ``key=value`` of a command line that sets these values."""
    return [f"{key}={override_value(value)}" for key, value in values.items()]
