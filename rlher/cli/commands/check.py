"""`rlher check`: hold an environment against the contract of a goal environment."""

import json
import textwrap
from typing import Any

from rlher.config.check import CheckConfig
from rlher.config.environment import EnvConfig
from rlher.core.errors import EnvironmentFault
from rlher.envs.contract.checker import CheckResult, check_goal_env

MARKS = {"ok": "[green]✓[/]", "warning": "[yellow]![/]", "error": "[red]✗[/]"}


def check(config: CheckConfig) -> int:
    """Print what the check finds, and what is known or found out about the environment.

    :return: exit code: 0 where training could start, else 1.
    :raises UserError: there is no such environment, or it cannot be made.
    """
    try:
        found = check_goal_env(config.env, config.seed)
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


def _properties(found: CheckResult) -> dict[str, Any]:
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


def _spaces(found: CheckResult) -> dict[str, str]:
    parts = getattr(found.observation_space, "spaces", {"observation": found.observation_space})
    return {**{key: str(space) for key, space in parts.items()}, "action": str(found.action_space)}


def _finding(level: str, sentence: str) -> dict[str, str]:
    return {"level": level, "sentence": sentence}


def _print_json(found: CheckResult) -> None:
    result = {
        "env": found.cfg.id,
        "ok": not found.errors,
        "properties": _properties(found),
        "spaces": _spaces(found),
        "findings": [_finding(finding.level, finding.message) for finding in found.findings],
    }
    print(json.dumps(result))


def _print_text(found: CheckResult) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    console.print(found.cfg.name or found.cfg.id, style="bold")
    said = _spaces(found) | {f"env.{key}": _yaml(value) for key, value in _properties(found).items()}
    width = max(map(len, said))
    for key, text in said.items():
        console.print(escape(f"{key:<{width}}  {text}"), soft_wrap=True)
    console.print()
    for finding in found.findings:
        sentence = textwrap.fill(finding.message, max(console.width - 2, 40), subsequent_indent="  ")
        console.print(f"{MARKS[finding.level]} {escape(sentence)}", soft_wrap=True)
    console.print("\ntraining would be refused" if found.errors else "\nready to train on")


def _yaml(value: Any) -> str:
    """Write a value as one would type it on the command line."""
    if isinstance(value, list):
        return "[" + ",".join(map(_yaml, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
