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

    done = collect(config)
    if config.json:
        values = {**asdict(done), "folder": str(done.folder), "success_rate": done.successes / done.played}
        print(json.dumps(values))
    else:
        rate = f"{done.successes} of {done.played} played ended in success"
        print(console.escape_control(f"{done.episodes} episodes, {done.steps:,} steps, {rate}: {done.folder}"))
        demos = console.command_line([f"demos={done.folder}"])
        print(console.escape_control(f"learn from them: rlher train … {demos}"), file=sys.stderr)
    return EXIT_INTERRUPTED if done.interrupted else 0
