"""All config keys that can be typed, and suggestions for misspelt ones."""

from dataclasses import Field

from rlher.cli.commands import command_names, load_command
from rlher.config.key import dotted_keys
from rlher.config.training import run_keys
from rlher.core.errors import did_you_mean


def known_keys() -> dict[str, Field]:
    """Return the dotted keys of every command, algorithm and environment."""
    found: dict[str, Field] = {}
    for name in command_names():
        found |= dotted_keys(load_command(name).schema)
    return found | run_keys()


def integer_keys() -> set[str]:
    """Return the dotted keys whose values are whole numbers."""
    return {
        name for name, item in known_keys().items() if str(getattr(item.type, "__name__", item.type)).startswith("int")
    }


def closest_key(key: str) -> str:
    """Return a hint at the keys nearest to a misspelt one, or ``""``; ``lr`` is near ``learning_rate``."""
    known = list(known_keys())
    if key in known:
        return ": it belongs to another algorithm, environment or command"
    group, _, name = key.rpartition(".")
    initials = [each for each in known if "".join(word[0] for word in each.rpartition(".")[2].split("_")) == name]
    same_name = [each for each in known if each.rpartition(".")[2] == name]
    near = same_name or [each for each in initials if each.rpartition(".")[0] == group]
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else did_you_mean(key, known)
