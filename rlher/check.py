"""`rlher check`: hold an environment against the contract of a goal environment."""

import json
from typing import Any

from rlher.config import CheckConfig, EnvConfig
from rlher.envs.check import Examination, examine
from rlher.errors import EnvironmentFault

MARKS = {"ok": "[green]✓[/]", "warning": "[yellow]![/]", "error": "[red]✗[/]"}


def check(config: CheckConfig) -> int:
    """Print what the check finds, and what is known or found out about the environment.

    :return: exit code: 0 where training could start, else 1.
    :raises UserError: there is no such environment, or it cannot be made.
    """
    try:
        found = examine(config.env, config.seed)
    except EnvironmentFault as error:  # its constructor; nothing else can be said of it
        if config.json:
            print(json.dumps({"env": config.env.id, "ok": False, "findings": [_finding("error", str(error))]}))
            return error.exit_code
        raise
    if config.json:
        _print_json(found)
    else:
        _print_text(found)
    return EnvironmentFault.exit_code if found.errors else 0


def _properties(found: Examination) -> dict[str, Any]:
    """Return what the rest of the program goes by."""
    cfg: EnvConfig = found.cfg
    names = (
        "max_episode_steps",
        "success_key",
        "crash_key",
        "ends_on_success",
        "success_reward",
        "reward_range",
        "extra_reward",
    )
    return {name: getattr(cfg, name) for name in names}


def _spaces(found: Examination) -> dict[str, str]:
    parts = getattr(found.observation_space, "spaces", {"observation": found.observation_space})
    return {**{key: str(space) for key, space in parts.items()}, "action": str(found.action_space)}


def _finding(level: str, sentence: str) -> dict[str, str]:
    return {"level": level, "sentence": sentence}


def _print_json(found: Examination) -> None:
    result = {
        "env": found.cfg.id,
        "ok": not found.errors,
        "properties": _properties(found),
        "spaces": _spaces(found),
        "findings": [_finding(finding.level, finding.sentence) for finding in found.findings],
    }
    print(json.dumps(result))


def _print_text(found: Examination) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    table = Table.grid(padding=(0, 2))
    for key, text in _spaces(found).items():
        table.add_row(key, escape(text))
    for key, value in _properties(found).items():
        table.add_row(f"env.{key}", escape(_yaml(value)))
    console.print(found.cfg.name or found.cfg.id, style="bold")
    console.print(table)
    console.print()
    lines = Table.grid(padding=(0, 1))
    for finding in found.findings:
        lines.add_row(MARKS[finding.level], escape(finding.sentence))
    console.print(lines)
    console.print("\ntraining would be refused" if found.errors else "\nready to train on")


def _yaml(value: Any) -> str:
    """Write a value as one would type it on the command line."""
    if isinstance(value, list):
        return "[" + ",".join(map(_yaml, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
