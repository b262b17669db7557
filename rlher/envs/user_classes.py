"""Modules and classes that a config names: ``module:Class``, or ``{module:Class: {argument: value}}``."""

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from rlher.core.errors import UserError, first_line


def import_module(module: str, key: str = "env.modules") -> ModuleType:
    """Import a module that the user named; modules of the current folder are found as well.

    :param key: config key that names it, for messages.
    :raises UserError: it cannot be imported.
    """
    # The current folder is searched last, and only for a module that is not installed. Absolute, because a worker
    # process may have another one.
    if os.getcwd() not in sys.path and not _is_found(module.partition(".")[0]):
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and module.split(".")[0] == error.name.split(".")[0]:
            raise UserError(f"{key}={module!r} cannot be imported; install it, or change to its folder.") from None
        raise UserError(f"importing {module!r} failed: {error}.") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit of a script without a main guard
        raise UserError(f"importing {module!r} failed: {type(error).__name__}: {error}.") from error


def _is_found(name: str) -> bool:
    with contextlib.suppress(ValueError):  # a module without a spec, such as __main__; not a name at all
        return find_spec(name) is not None
    return False


@dataclass(frozen=True)
class UserClass:
    """An entry of ``env.wrappers`` or ``callbacks``.

    :param key: config key, for messages.
    """

    key: str
    module: str
    name: str
    kwargs: dict[str, Any]

    def build(self, kind: type, *arguments: Any) -> Any:
        """Import the class and call it with the arguments and its keyword arguments.

        :param kind: its base class.
        :raises UserError: it cannot be imported, is not a subclass of ``kind``, or raises.
        """
        found = getattr(import_module(self.module, self.key), self.name, None)
        if not isinstance(found, type) or not issubclass(found, kind):  # a function could be os.system
            what = f"is not a subclass of {kind.__name__}" if found is not None else "does not exist"
            raise UserError(f"{self.key}: {self.module}:{self.name} {what}; check the spelling.")
        try:
            return found(*arguments, **self.kwargs)
        except Exception as error:
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise UserError(f"{self.key}: {self.module}:{self.name} cannot be built ({reason}).") from error


def user_classes(key: str, entries: Sequence[Any]) -> list[UserClass]:
    """Return the classes that a key's entries name; nothing is imported. RL Zoo's ``module.Class`` is accepted as well.

    :raises UserError: an entry has another form.
    """
    return [_parse(key, entry) for entry in entries]


def _parse(key: str, entry: Any) -> UserClass:
    path, kwargs = next(iter(entry.items())) if isinstance(entry, dict) and len(entry) == 1 else (entry, None)
    module, _, name = str(path).rpartition(":" if ":" in str(path) else ".")
    is_path = isinstance(path, str) and all(part.isidentifier() for part in (*module.split("."), name))
    if not is_path or not isinstance(kwargs, dict | None):
        raise UserError(
            f"{key}={entry!r} does not name a class; write module:Class or {{module:Class: {{key: value}}}}."
        )
    return UserClass(key, module, name, kwargs or {})
