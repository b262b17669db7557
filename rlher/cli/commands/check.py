"""Check an environment against the contract of a goal environment."""

import json
import textwrap
from typing import TYPE_CHECKING

from rlher.composition.override_syntax import format_value
from rlher.config.commands import CheckConfig
from rlher.core.console import output_width
from rlher.core.errors import RunError

if TYPE_CHECKING:
    from rlher.envs.contract import CheckResult

MARKS = {"ok": "✓", "warning": "!", "error": "✗"}


def run(config: CheckConfig, command_line: str) -> int:
    """Print the findings and the environment's known or probed properties.

    :return: exit code: 0 if training could start, else 1.
    :raises UserError: the environment does not exist or cannot be constructed.
    """
    from rlher.envs.contract import check_goal_env

    try:
        result = check_goal_env(config.env, config.seed)
    except RunError as error:  # raised by its constructor
        if config.json:
            finding = {"level": "error", "message": str(error)}
            print(json.dumps({"env": config.env.id, "ok": False, "findings": [finding]}))
            return error.exit_code
        raise
    if config.json:
        print(json.dumps(result.to_json()))
    else:
        _print_text(result)
    return RunError.exit_code if result.errors else 0


def _print_text(result: "CheckResult") -> None:
    values = result.to_json()
    keys = {f"env.{name}": format_value(value) for name, value in values["properties"].items()}
    properties = values["spaces"] | keys
    width = max(map(len, properties))
    lines = [result.config.label, *(f"{name:<{width}}  {text}" for name, text in properties.items()), ""]
    for finding in result.findings:
        message = f"{MARKS[finding.level]} {finding.message}"
        lines.append(textwrap.fill(message, output_width(), subsequent_indent="  "))
    lines += ["", "training would be refused" if result.errors else "ready to train on"]
    print("\n".join(lines))
