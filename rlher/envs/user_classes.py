"""Classes that a config names: ``module:Class``, or ``{module:Class: {argument: value}}``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlher.core.errors import UserError, first_line
from rlher.envs.registration import import_module


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

        :raises UserError: it cannot be imported, raises, or returns something other than a ``kind``.
        """
        found = getattr(import_module(self.module, self.key), self.name, None)
        if not callable(found):
            raise UserError(f"{self.key}: the module {self.module} has no class {self.name!r}; check the spelling.")
        try:
            built = found(*arguments, **self.kwargs)
        except Exception as error:
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise UserError(f"{self.key}: {self.module}:{self.name} cannot be built ({reason}).") from error
        if not isinstance(built, kind):
            raise UserError(f"{self.key}: {self.module}:{self.name} is not a {kind.__module__}.{kind.__name__}.")
        return built


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
        raise UserError(f"{key}={entry!r} does not name a class; write module:Class or {{module:Class: {{key: value}}}}.")
    return UserClass(key, module, name, kwargs or {})
