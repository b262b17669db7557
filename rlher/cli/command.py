"""What a command of `rlher` is: its name, summary, config keys, flags, and the function that runs it."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Any

from rlher.config.key import default_of, fields_by_key
from rlher.config.overrides import GROUPS
from rlher.config.training import all_train_fields


@dataclass(frozen=True)
class Command:
    """A command of `rlher`.

    :param function: does the work with its config and the text of the command line; returns the exit code, None for 0.
    :param schema: dataclass of its config keys.
    :param sweep: does the work for the overrides of all runs of a sweep (``-m``); None: ``function``, one by one.
    :param make_config: returns its config for the values that a command line gives; None: composed by its schema.
    """

    name: str
    function: Callable[[Any, str], int | None]
    schema: type
    sweep: Callable[[Sequence[Mapping[str, Any]]], int] | None = None
    make_config: Callable[[Mapping[str, Any]], Any] | None = None

    @property
    def summary(self) -> str:
        """Its line in ``rlher --help``."""
        return (self.function.__doc__ or self.name).splitlines()[0].rstrip(".")

    @property
    def flags(self) -> dict[str, Field]:
        """Its keys by flag, such as ``--seed``. Keys of a section have none."""
        keys = [key for key in fields(self.schema) if not is_dataclass(default_of(key))]
        return {"--" + key.name.replace("_", "-"): key for key in keys}

    @functools.cached_property
    def keys(self) -> dict[str, Field]:
        """Its config keys, with those of every algorithm and environment."""
        keys = fields_by_key(self.schema)
        sections = tuple(f"{group}." for group in self.groups)
        return keys | {key: field for key, field in all_train_fields().items() if key.startswith(sections)}

    @property
    def positional(self) -> Field | None:
        """The key that words without a flag set, such as the run folder of ``rlher enjoy <run>``."""
        return next((key for key in fields(self.schema) if key.metadata.get("positional")), None)

    @property
    def groups(self) -> list[str]:
        """Its config groups."""
        return [group for group in GROUPS if group in {field.name for field in fields(self.schema)}]
