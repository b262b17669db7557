"""``rlher <verb> --help``, composed from the schemas."""

from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from importlib import resources
from typing import Any

import yaml

from rlher.cli.overrides import GROUPS, flags, options, positional
from rlher.config.algorithms import ALGORITHMS, OffPolicyConfig
from rlher.config.environment import BitFlippingConfig, EnvConfig
from rlher.config.key import dotted_keys
from rlher.config.override_syntax import literal
from rlher.config.store import VERB_SCHEMAS


def help_text(verb: str, summary: str, argv: Sequence[str] = ()) -> str:
    """Compose ``rlher <verb> --help``: flags, groups and keys, each with its text, default and choices.

    :param argv: what else was typed; the keys are those of its ``algo=`` and ``env=``.
    """
    schema = VERB_SCHEMAS[verb]
    names = [item.name for item in fields(schema)]
    places = {"run": " [<run>]", "runs": " [<run or folder> ...]", None: ""}[positional(verb)]
    lines = [f"rlher {verb}: {summary}", "", f"usage: rlher {verb}{places} [flags] [key=value ...]", ""]
    lines.append("flags (each is a key too):")
    for flag, (_, default, text) in flags(verb).items():
        shown = flag if isinstance(default, bool) else f"{flag} {'...' if default in (None, []) else default}"
        lines.append(f"  {shown:<28} {text}")
    if groups := [group for group in GROUPS if group in names or (group == "preset" and "algo" in names)]:
        lines += ["", "groups (`rlher list algos|envs|strategies` says more):"]
        lines += [f"  {group}={'|'.join(options(group))}" for group in groups]
        if "algo" in names:
            lines.append("  tuned=<recipe or file.yaml>, ~tuned for none; recipes: " + ", ".join(options("tuned")))
    nested = [(name, item, item.default) for name, item in dotted_keys(schema).items() if "." in name]
    typed = {group: name for word in argv for group, _, name in [word.partition("=")] if group in groups}
    chosen = {group: name for group, name in _DEFAULTS.items() if f"--{group}" not in flags(verb)} | typed
    for group in groups:
        if group in ("algo", "env") and group in chosen:
            of_choice = _keys_of_choice(group, chosen[group])
            nested = [each for each in nested if not each[0].startswith(f"{group}.")] + of_choice
    if nested:
        said = f" of {chosen['algo']}" if "algo" in names else ""
        lines += ["", f"keys{said}, with their defaults before any recipe:"]
        lines += [f"  {name:<34} {item.metadata['text']}{_limits(item, default)}" for name, item, default in nested]
    lines += [
        "",
        "Hydra's own: -m key=a,b (one run each)   --cfg job (print the config)   --config-dir DIR   --hydra-help",
    ]
    return "\n".join(lines)


_DEFAULTS = {"algo": "tqc", "env": "parking-v0"}
"""Of conf/train.yaml."""


def _keys_of_choice(group: str, name: str) -> list[tuple[str, Field, Any]]:
    """List the keys of an algorithm or environment: name, field, default in its YAML."""
    file = resources.files("rlher.conf") / group / f"{name}.yaml"
    values = yaml.safe_load(file.read_text()) if file.is_file() else {}
    schema: type = ALGORITHMS[name].config if name in ALGORITHMS else OffPolicyConfig
    if group == "env":
        schema = BitFlippingConfig if "n_bits" in values else EnvConfig
    return [
        (key, item, values.get(item.name, item.default))
        for key, item in dotted_keys(schema, f"{group}.").items()
        if item.name not in ("name", "description")
    ]


def _limits(item: Field, default: Any) -> str:
    words = [] if default is MISSING or default in (None, "") else [literal(default)]
    if item.metadata["choices"]:
        words.append(f"one of {', '.join(item.metadata['choices'])}")
    return f" ({'; '.join(words)})" if words else ""
