"""The two exceptions whose message is for the person at the terminal, and helpers to word one."""

import difflib
from collections.abc import Iterable

from rlher.core.console import redact


class UserError(Exception):
    """Something asked for that cannot be done: a wrong key, name, value, pair or file. Exit code 2."""

    exit_code = 2


class EnvironmentFault(Exception):
    """The environment broke its promise: it raised, died, or returned NaN. Exit code 1."""

    exit_code = 1


def os_error_reason(error: OSError) -> str:
    """Return why a file cannot be read or written, for example ``"No space left on device"``."""
    return error.strerror or first_line(error)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, without a full stop; its type where it says nothing.

    Passwords are taken out first: of an address that is cut in two neither half looks like one.
    """
    return (redact(str(error)).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x' or 'y'?)"`` for the known names nearest to ``name``, or ``""``.

    Case is ignored in the comparison, because ``fetchreach-v4`` is what a person types first.
    """
    spelling = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), spelling, n=1, cutoff=0.85)
    near = near or difflib.get_close_matches(name.lower(), spelling, n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(repr(spelling[match]) for match in near)}?)" if near else ""
