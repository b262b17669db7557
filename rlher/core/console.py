"""Text for a terminal: messages on stderr, escapes made visible, passwords hidden."""

import re
import shlex
import sys
from collections.abc import Sequence

NAMES = ("pass", "pwd", "secret", "token", "key", "odbc_connect")
"""Parts of the names of an address's parameters whose values are nobody's business; ``pass%77ord`` is one too."""

# A password may hold blanks, slashes, and an @ that ought to be %40: better too much is hidden than too little. The
# number of a web address's port is none.
PASSWORD = re.compile(
    r"""
    (   (?<![\w+.-])(?!https?:/+[^:/]*:\d+(?:[/?\#'"]|:?\s|$)) [\w+.-]+:/+  # scheme://
        (?![^:/]*\s[\w+.-]+://)[^:/]*  # user, unless it is some words and the next address's scheme
    |   (?:^|['"=]|:[ ])[\w.%+-]+(?=:[^\s/])  # user, the scheme forgotten
    ) : (?: \*\*\*@ | [^@]*@(?:[^@/?\#]*@)* ) (?:[^@\s]*@)*
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NAME = "|".join("".join(f"(?:{each}|%{ord(each):x}|%{ord(each.upper()):x})" for each in name) for name in NAMES)
PARAMETER = re.compile(
    rf"([?&;](?=[^=?&;\s]*=)[^=?&;\s]*(?:{_NAME})[^=?&;\s]*=)(?!\*\*\*(?:\W|$))[^&]*?(?=&|['\"]\]?$|$)", re.IGNORECASE
)


def redact(text: str) -> str:
    """Put ``***`` in place of every password of an address in ``text``."""
    before, at, after = text.rpartition("@")  # so that no search for an @ is in vain, which takes long in long texts
    return PARAMETER.sub(r"\1***", PASSWORD.sub(r"\1:***@", before + at) + after)


def command_line(words: Sequence[str]) -> str:
    """Write down a command as one would type it, but for passwords; each word on its own, before a shell's quotes."""
    return shlex.join(redact(word) for word in words)


def escape_control(text: str) -> str:
    """Make visible, as ``\\x1b``, what a terminal would obey or hide, or what is no text; a value may hold anything."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def warn(sentence: str) -> None:
    """Print a sentence for a person, on stderr, on a line of its own."""
    print(f"rlher: {escape_control(redact(sentence))}", file=sys.stderr)
