"""The two kinds of failure that are told to a person in a sentence instead of a traceback, and how they are told."""

import difflib
import re
import shlex
import sys
from collections.abc import Iterable, Sequence

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


class UserError(Exception):
    """Something asked for that cannot be done: a wrong key, name, value, pair or file. Exit code 2."""

    exit_code = 2


class EnvironmentFault(Exception):
    """The environment broke its promise: it raised, died, or returned NaN. Exit code 1."""

    exit_code = 1


def cause(error: OSError) -> str:
    """Return why a file cannot be read or written, as the system puts it: ``"No space left on device"``."""
    return error.strerror or str(error)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, without a full stop; its type where it says nothing.

    Passwords are taken out first: of an address that is cut in two neither half looks like one.
    """
    return (redacted(str(error)).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def closest(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x' or 'y'?)"`` for the known names nearest to ``name``, or ``""``.

    Case is ignored in the comparison, because ``fetchreach-v4`` is what a person types first.
    """
    spelling = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), spelling, n=1, cutoff=0.85)
    near = near or difflib.get_close_matches(name.lower(), spelling, n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(repr(spelling[match]) for match in near)}?)" if near else ""


def redacted(text: str) -> str:
    """Put ``***`` in place of every password of an address in ``text``."""
    before, at, after = text.rpartition("@")  # so that no search for an @ is in vain, which takes long in long texts
    return PARAMETER.sub(r"\1***", PASSWORD.sub(r"\1:***@", before + at) + after)


def command_line(words: Sequence[str]) -> str:
    """Write down a command as one would type it, but for passwords; each word on its own, before a shell's quotes."""
    return shlex.join(redacted(word) for word in words)


def printable(text: str) -> str:
    """Make visible, as ``\\x1b``, what a terminal would obey or hide, or what is no text; a value may hold anything."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def tell(sentence: str) -> None:
    """Print a sentence for a person, on stderr, on a line of its own."""
    print(f"rlher: {printable(redacted(sentence))}", file=sys.stderr)
