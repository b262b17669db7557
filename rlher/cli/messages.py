"""Messages for exceptions that end a command. Messages of Hydra and OmegaConf are reworded and name the nearest key."""

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

from hydra.errors import HydraException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from rlher.cli.command import command_names, load_command
from rlher.config.algorithms import ALGORITHMS
from rlher.config.key import dotted_keys
from rlher.config.override_syntax import override_value
from rlher.core.errors import RunError, UserError, did_you_mean, first_line, os_error_reason

COMPOSE_ERRORS = (TypeError, ValueError, AttributeError, AssertionError, RecursionError)
"""What OmegaConf raises for invalid input besides its own exceptions."""
CLASS_LIST_KEYS = ("env.wrappers", "callbacks")
"""Keys whose values name classes."""
KINDS_OF_VALUES = {"to Integer": "a whole number", "to Float": "a number", "a valid bool": "true or false"}
"""What the value of a key must be, by the end of OmegaConf's message."""


def explain(error: Exception) -> str | None:
    """Return the message for the user, or None if the exception is a bug."""
    if isinstance(error, UserError | RunError):
        return str(error)
    if isinstance(error, OSError):
        return f"cannot read or write {error.filename or 'stdout or a file'}: {os_error_reason(error)}."
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({first_line(error)}); use smaller numbers, or close other programs."
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object!r} is not UTF-8, which a run's files need; rename it."
    if isinstance(error, ValueError) and "before 1980" in str(error):  # of a zip file
        return "the clock of this machine is before 1980, which no model file can hold; set it."
    return None


@contextlib.contextmanager
def hydra_errors_as_user_errors() -> Iterator[None]:
    """Turn the exceptions of Hydra and OmegaConf within the block into UserErrors."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_composition_error(error)) from None  # Hydra's own traceback has hundreds of lines
    except COMPOSE_ERRORS as error:
        raise UserError(f"invalid configuration: {' '.join(str(error).split()).rstrip('.')}.") from None


def _composition_error(error: HydraException | OmegaConfBaseException) -> str:
    if isinstance(error, OverrideParseException):  # its message may quote a part of a password
        key = error.override.partition("=")[0]
        if key in CLASS_LIST_KEYS:
            forms = f"{key}=[module:Class] or {key}=[{{module:Class: {{argument: value}}}}]"
            return f"{key}=... does not name classes; write {forms}."
        why = "a bracket or quote is not closed, or a value with spaces, brackets or = is not quoted"
        return f"{key}=... cannot be parsed: {why}; quote it as \"{key}='...'\"."
    first = first_line(error)
    cause = first_line(error.__cause__) if error.__cause__ else ""
    return f"{first}{': ' + cause if cause and cause != first else ''}."


def invalid_value(key: str, value: Any, cause: str) -> str:
    """Return the message about a value that a key cannot take.

    :param cause: OmegaConf's message.
    """
    value = override_value(value)
    if cause.startswith("Cannot convert 'list'"):
        return f"{key}={value}: {key} takes one value."
    for ending, kind in KINDS_OF_VALUES.items():
        if cause.endswith(ending):
            return f"{key}={value} is invalid; {key} is {kind}."
    return f"{key}={value}: {cause}."


def closest_key(key: str, keys: Collection[str]) -> str:
    """Return a hint at the owner of a key that a command does not have, or at the keys nearest to it, or ``""``.

    :param keys: the keys of the command.
    """
    owners = [f"algo={name}" for name, entry in ALGORITHMS.items() if key in dotted_keys(entry.config, "algo.")]
    owners += [f"rlher {name}" for name in command_names() if key in dotted_keys(load_command(name).schema)]
    if owners:
        return f": it is a key of {', '.join(owners)}"
    section, _, name = key.rpartition(".")
    receiver = {"env": "the environment itself", "algo": "an algorithm of your own"}.get(section)
    argument = f"; an argument of {receiver} is {section}.kwargs.{name}" if receiver else ""
    return f"{did_you_mean(key, keys)}{argument}"
