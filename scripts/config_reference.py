"""Write the reference of all config keys, as Markdown, from the dataclasses of the config and the commands."""

from dataclasses import Field, fields, is_dataclass

import yaml

from rlher.cli.commands import COMMANDS
from rlher.config.algorithms import ALGORITHMS, OffPolicyConfig
from rlher.config.environment import EnvConfig
from rlher.config.key import Key, KeyRules, keys_of
from rlher.config.overrides import CONFIG_GROUPS, names_in_group
from rlher.config.training import ResumeConfig, RunConfig, TrainConfig
from rlher.config.tuning import OptimizeConfig

INTRODUCTION = """# Config keys

Set a key on the command line as `key=value`. A key without a dot is a flag as well: `total_timesteps=500_000` is
`--total-timesteps 500_000`. `rlher <command> --help-all` prints the keys of one command, `rlher <command> --cfg job`
the resolved configuration.

`null` as a default means that rlher chooses or measures the value, unless the text says otherwise. Defaults are those
before any recipe of `hyperparams/`.

A key of the *experiment* changes what is learned or measured. A key of the *runtime* changes where and how fast a run
is computed, or what is written and shown: it may change when a run is resumed, it does not separate runs into agents,
and no recipe holds it. Keys of other commands are of no kind.
"""


def reference() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, "## rlher train\n", table(plain(TrainConfig))]
    for item in fields(TrainConfig):
        if section := nested(item):
            parts.append(f"### {item.name}\n\n{(section.__doc__ or '').splitlines()[0]}\n\n{choices(item.name)}")
            parts.append(table(keys_of(section, item.name + ".")))
            parts += algorithms() if item.name == "algo" else []
    parts.append("## rlher resume\n\nKeys of the run, and:\n")
    parts.append(table(added(ResumeConfig, RunConfig)))
    parts.append("## rlher optimize\n\nEvery key of `rlher train`, and:\n")
    parts.append(table(added(OptimizeConfig, TrainConfig), is_of_run=False))
    for command in COMMANDS:
        config = COMMANDS[command].schema
        if command not in ("train", "resume", "optimize"):
            sections = ", ".join(f"`{item.name}.…`" for item in fields(config) if nested(item))
            note = f"The section {sections} is the one of `rlher train`.\n\n" if sections else ""
            parts.append(f"## rlher {command}\n\n{note}{table(plain(config), is_of_run=False)}")
    return "\n".join(parts)


def algorithms() -> list[str]:
    """Return one section per algorithm: the keys it adds, and the common keys with other defaults."""
    parts = []
    for name, algorithm in ALGORITHMS.items():
        common, own = keys_of(OffPolicyConfig, "algo."), keys_of(algorithm.config, "algo.")
        differ = {key: own[key] for key in own if key not in common or own[key].default != common[key].default}
        parts.append(f"#### {name}\n\n{algorithm.description}\n\n{table(differ)}")
    return parts


def added(config: type, parent: type) -> dict[str, Key]:
    """Return the keys that ``config`` adds to ``parent`` or describes anew."""
    inherited = {name: key.rules.help for name, key in keys_of(parent).items()}
    return {name: key for name, key in keys_of(config).items() if inherited.get(name) != key.rules.help}


def plain(config: type) -> dict[str, Key]:
    """Return the keys that are not in a section, by name."""
    sections = [item.name for item in fields(config) if nested(item)]
    return {name: key for name, key in keys_of(config).items() if name.partition(".")[0] not in sections}


def nested(item: Field) -> type | None:
    """Return the dataclass of a section of the config, None for a plain key."""
    factory = item.default_factory
    if is_dataclass(factory):
        return factory
    return EnvConfig if "EnvConfig" in str(item.type) else None


def choices(section: str) -> str:
    """Return the sentence that lists what one may choose for a section."""
    names = names_in_group(section) if section in CONFIG_GROUPS else ()
    return f"`{section}=<name>` with one of {', '.join(f'`{name}`' for name in names)}.\n" if names else ""


def table(keys: dict[str, Key], is_of_run: bool = True) -> str:
    """Return a Markdown table of keys: name, default, kind, meaning and limits.

    :param is_of_run: whether they are keys of a training run.
    """
    lines = ["| key | default | kind | meaning |", "|--|--|--|--|"]
    for name, key in keys.items():
        value = yaml.safe_dump(key.default, default_flow_style=True).split("\n")[0]
        kind = "experiment" if key.rules.is_param else "runtime" if is_of_run else "–"
        lines.append(f"| `{name}` | `{value}` | {kind} | {meaning(key.rules)} |")
    return "\n".join(lines) + "\n"


def meaning(rules: KeyRules) -> str:
    """Return a key's text with its choices, or the range it must lie in."""
    text = rules.help.replace("|", "\\|").replace("<", "&lt;")
    low, high = rules.low, rules.high
    if rules.choices:
        return f"{text}; one of {', '.join(f'`{each}`' for each in rules.choices)}"
    if low is not None and high is not None:
        return f"{text}; {low:g} to {high:g}"
    return f"{text}; at least {low:g}" if low else text


if __name__ == "__main__":
    print(reference())
