"""The two kinds of failure that are told to a person in a sentence instead of a traceback."""

import difflib
import re
from collections.abc import Iterable


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
    """Return the first line of what an error says, without a full stop; its type where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def closest(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x' or 'y'?)"`` for the known names nearest to ``name``, or ``""``.

    Case is ignored in the comparison, because ``fetchreach-v4`` is what a person types first.
    """
    spelling = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), spelling, n=1, cutoff=0.85)
    near = near or difflib.get_close_matches(name.lower(), spelling, n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(repr(spelling[match]) for match in near)}?)" if near else ""


def redacted(text: str) -> str:
    """Put ``***`` in place of every password of a database address in ``text``."""
    text = re.sub(r"(://[^:/@\s]*):[^\s]*@", r"\1:***@", text)
    return re.sub(r"([?&]password=)[^&\s'\"]+", r"\1***", text)
