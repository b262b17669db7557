"""Check an environment against the contract of a goal environment."""

import json
import textwrap
from typing import TYPE_CHECKING, Any

from rlher.config.commands import CheckConfig
from rlher.config.override_syntax import literal
from rlher.core.errors import EnvironmentFault

if TYPE_CHECKING:
    from rlher.envs.contract import CheckResult

MARKS = {"ok": "[green]✓[/]", "warning": "[yellow]![/]", "error": "[red]✗[/]"}
PROPERTIES = (
    "max_episode_steps",
    "success_key",
    "crash_key",
    "ends_on_success",
    "success_reward",
    "reward_range",
    "extra_reward",
)


def run(config: CheckConfig) -> int:
    """Print the findings and the environment's known or probed properties.

    :return: exit code: 0 if training could start, else 1.
    :raises UserError: the environment does not exist or cannot be constructed.
    """
    from rlher.envs.contract import check_goal_env

    try:
        found = check_goal_env(config.env, config.seed)
    except EnvironmentFault as error:  # raised by its constructor
        if config.json:
            print(
                json.dumps(
                    {"env": config.env.id, "ok": False, "findings": [{"level": "error", "sentence": str(error)}]}
                )
            )
            return error.exit_code
        raise
    if config.json:
        print(json.dumps(to_json(found)))
    else:
        _print_text(found)
    return EnvironmentFault.exit_code if found.errors else 0


def _spaces(found: "CheckResult") -> dict[str, str]:
    parts = getattr(found.observation_space, "spaces", {"observation": found.observation_space})
    return {**{name: str(space) for name, space in parts.items()}, "action": str(found.action_space)}


def to_json(found: "CheckResult") -> dict[str, Any]:
    """Return the findings as ``--json`` prints them."""
    return {
        "env": found.config.id,
        "ok": not found.errors,
        "properties": {name: getattr(found.config, name) for name in PROPERTIES},
        "spaces": _spaces(found),
        "findings": [{"level": finding.level, "sentence": finding.message} for finding in found.findings],
    }


def _print_text(found: "CheckResult") -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    properties = _spaces(found) | {f"env.{name}": literal(getattr(found.config, name)) for name in PROPERTIES}
    width = max(map(len, properties))
    with console.capture() as capture:  # rich ends the program with exit code 1 if the pipe is closed
        console.print(found.config.label, style="bold")
        for name, text in properties.items():
            console.print(escape(f"{name:<{width}}  {text}"), soft_wrap=True)
        console.print()
        for finding in found.findings:
            message = textwrap.fill(finding.message, max(console.width - 2, 40), subsequent_indent="  ")
            console.print(f"{MARKS[finding.level]} {escape(message)}", soft_wrap=True)
        console.print("\ntraining would be refused" if found.errors else "\nready to train on")
    print(capture.get(), end="")
