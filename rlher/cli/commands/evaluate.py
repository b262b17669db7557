"""Measure the success rate of a run, or of an agent that comes with rlher."""

import json
import sys

from rlher.config.commands import EvaluateConfig
from rlher.core.console import escape_control


def run(config: EvaluateConfig, command_line: str) -> int:
    """Play episodes with a model and print their success rate and return.

    :raises UserError: the run, or a readable model in it, does not exist.
    """
    from rlher.evaluation.agent import choose_model
    from rlher.evaluation.metrics import format_summary

    chosen = choose_model(config)
    print(escape_control(f"{chosen.name}, seeds {config.seed}…{config.seed + config.episodes - 1}"), file=sys.stderr)
    summary = chosen.evaluate(config.episodes, config.seed)
    print(json.dumps(summary) if config.json else format_summary(summary))
    return 0
