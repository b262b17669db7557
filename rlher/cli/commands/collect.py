"""Collect demonstrations from an agent or a controller as a Minari dataset."""

import json
import sys
from dataclasses import asdict

from rlher.config.commands import CollectConfig
from rlher.core import console
from rlher.core.signals import EXIT_INTERRUPTED


def run(config: CollectConfig, command_line: str) -> int:
    """Play episodes, write them, and print where they are.

    :return: exit code: 0, or 130 after Ctrl-C, with the episodes until then written.
    :raises UserError: there is nothing to play, or nothing to write.
    """
    from rlher.demonstrations.collecting import collect

    dataset = collect(config)
    if config.json:
        rates = {"success_rate": dataset.successes / dataset.played}
        print(json.dumps(asdict(dataset) | rates, default=str))
    else:
        rate = f"{dataset.successes} of {dataset.played} played ended in success"
        print(console.escape_control(f"{dataset.episodes} episodes, {dataset.steps:,} steps, {rate}: {dataset.folder}"))
        demos = console.command_line([f"demos={dataset.folder}"])
        print(console.escape_control(f"learn from them: rlher train … {demos}"), file=sys.stderr)
    return EXIT_INTERRUPTED if dataset.interrupted else 0
