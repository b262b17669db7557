"""Commands: each module of :mod:`rlher.cli.commands`, or of a plugin, is one.

Its docstring is the summary in ``--help``, and ``run(config)`` does the work.

The annotation of ``config`` is the schema of the command's config keys. A module imports what is slow to import
(torch, Stable-Baselines3, Optuna) inside ``run``, so that help and completion stay fast.
"""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from types import ModuleType
from typing import Any, get_type_hints

from rlher.cli import commands
from rlher.cli.groups import GROUPS
from rlher.config.algorithms import ALGORITHMS
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
    :param takes_command: whether ``run`` takes the command line, to write it into a file.
    """

    name: str
    summary: str
    schema: type
    takes_command: bool
    module: ModuleType

    @property
    def flags(self) -> dict[str, Field]:
        """Return its keys by flag, such as ``--seed``. Keys of a section have none, and ``runs`` is given as words."""
        keys = [item for item in fields(self.schema) if not is_dataclass(default_of(item)) and item.name != "runs"]
        return {"--" + item.name.replace("_", "-"): item for item in keys}

    @property
    def positional(self) -> Field | None:
        """The key that words without a flag set, such as the run folder of ``rlher enjoy <run>``."""
        return next((item for item in fields(self.schema) if item.metadata.get("positional")), None)

    @property
    def groups(self) -> list[str]:
        """Its config groups."""
        names = [item.name for item in fields(self.schema)]
        return [group for group in GROUPS if group in names]

    def keys(self, choices: Mapping[str, Any]) -> dict[str, Field]:
        """Return its config keys, with those of the chosen algorithm and environment.

        :param choices: names by group.
        """
        keys, algo = dotted_keys(self.schema), choices.get("algo")
        if algo in ALGORITHMS:
            keys |= dotted_keys(ALGORITHMS[algo].config, "algo.")
        return keys | (dotted_keys(EnvConfig, "env.") if choices.get("env") else {})

    def choices(self) -> dict[str, str | None]:
        """Return the algorithm and the environment that it has by default."""
        sections = [item for item in fields(self.schema) if item.name in ("algo", "env")]
        return {item.name: item.metadata.get("choice") for item in sections}

    def run(self, config: Any, command: str) -> int:
        """Run it and return the exit code.

        :param command: the command line, which some commands write into a file.
        """
        return self.module.run(config, command) if self.takes_command else self.module.run(config)

    @property
    def sweep(self) -> Callable[[Sequence[Any]], int] | None:
        """Its function that runs the jobs of a sweep (``-m``); None: they are run one after the other."""
        return getattr(self.module, "sweep", None)


def _modules() -> dict[str, str]:
    """Return the modules of all commands by name, without importing them."""
    own = {each.name: f"{commands.__name__}.{each.name}" for each in pkgutil.iter_modules(commands.__path__)}
    return {name: module for found in (*plugin_values("COMMANDS"), own) for name, module in found.items()}


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
    summary, hints = (module.__doc__ or "").splitlines()[0].rstrip("."), get_type_hints(module.run)
    return Command(name, summary, hints["config"], "command" in hints, module)


def known_keys() -> dict[str, Field]:
    """Return the dotted keys of every command, algorithm and environment."""
    found: dict[str, Field] = {}
    for name in command_names():
        found |= dotted_keys(load_command(name).schema)
    return found | run_keys()
