"""Commands: each module of :mod:`rlher.cli.commands`, or of a plugin, is one.

Its docstring is the summary in ``--help``, and ``run(config, command_line)`` does the work and returns the exit code.

The annotation of ``config`` is the schema of the command's config keys. ``command_line`` is the text that was typed,
which some commands write into a file. A module imports what is slow to import
(torch, Stable-Baselines3, Optuna) inside ``run``, so that help and completion stay fast.
"""

import contextlib
import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from types import ModuleType
from typing import Any, get_type_hints

from rlher.cli import commands
from rlher.composition.groups import GROUPS
from rlher.config.environment import EnvConfig
from rlher.config.key import default_of, dotted_keys
from rlher.config.plugins import plugin_values
from rlher.config.training import run_keys
from rlher.core.errors import UserError, describe_error


@dataclass(frozen=True)
class Command:
    """A command of `rlher`.

    :param summary: its line in ``rlher --help``.
    :param schema: dataclass of its config keys.
    """

    name: str
    summary: str
    schema: type
    module: ModuleType

    @property
    def flags(self) -> dict[str, Field]:
        """Return its keys by flag, such as ``--seed``. Keys of a section have none, and ``runs`` is given as words."""
        keys = [key for key in fields(self.schema) if not is_dataclass(default_of(key)) and key.name != "runs"]
        return {"--" + key.name.replace("_", "-"): key for key in keys}

    @functools.cached_property
    def keys(self) -> dict[str, Field]:
        """Its config keys, with those of every algorithm and environment."""
        keys = dotted_keys(self.schema)
        if "algo" in self.groups:
            keys |= {key: field for key, field in run_keys().items() if key.startswith("algo.")}
        return keys | (dotted_keys(EnvConfig, "env.") if "env" in self.groups else {})

    @property
    def positional(self) -> Field | None:
        """The key that words without a flag set, such as the run folder of ``rlher enjoy <run>``."""
        return next((key for key in fields(self.schema) if key.metadata.get("positional")), None)

    @property
    def groups(self) -> list[str]:
        """Its config groups."""
        return [group for group in GROUPS if group in {field.name for field in fields(self.schema)}]

    def run(self, config: Any, command_line: str) -> int:
        """Run it and return the exit code."""
        return self.module.run(config, command_line)

    @property
    def sweep(self) -> Callable[[Sequence[Any]], int] | None:
        """Its function that runs the jobs of a sweep (``-m``); None: they are run one after the other."""
        return getattr(self.module, "sweep", None)


def _modules() -> dict[str, str]:
    """Return the modules of all commands by name, without importing them."""
    modules: dict[str, str] = {}
    for of_plugin in plugin_values("COMMANDS"):
        modules |= of_plugin
    return modules | {info.name: f"{commands.__name__}.{info.name}" for info in pkgutil.iter_modules(commands.__path__)}


def command_names() -> list[str]:
    """Return the names of all commands without importing them."""
    return sorted(_modules())


@functools.cache
def load_command(name: str) -> Command:
    """Import a command's module."""
    try:
        module = importlib.import_module(_modules()[name])
    except ImportError as error:
        raise UserError(f"the command {name} cannot be imported: {describe_error(error)}.") from error
    summary = (module.__doc__ or name).splitlines()[0].rstrip(".")
    return Command(name, summary, get_type_hints(module.run)["config"], module)


def commands_with_key(key: str) -> list[str]:
    """Return the names of the commands that have a key."""
    names = []
    for name in command_names():
        with contextlib.suppress(UserError):  # a command of a plugin that cannot be imported
            names += [name] if key in load_command(name).keys else []
    return names


def command_line_choices(words: Sequence[str]) -> dict[str, str]:
    """Return the names that ``algo=sac``, ``--algo sac`` and ``--algo=sac`` choose, by group; also for ``env``."""
    lines = re.sub(r"^--(algo|env)[=\n]", r"\1=", "\n".join(words), flags=re.MULTILINE)
    return dict(re.findall(r"^(algo|env)=(.*)", lines, re.MULTILINE))
