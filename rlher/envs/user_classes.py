"""Classes that a config names: ``module:Class``, or ``{module:Class: {argument: value}}``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlher.core.errors import UserError, first_line


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
        from rlher.envs.registration import import_module  # imports gymnasium

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
    """Return the classes that a key's entries name; nothing is imported. RL Zoo's ``module.Class`` is accepted, too.

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
