"""Write a run's agent as a plain Stable-Baselines3 model, with a script and a model card."""

import json
import sys
from pathlib import Path

from rlher.config.commands import ExportConfig
from rlher.core import console


def run(config: ExportConfig, command_line: str) -> int:
    """Write the export folder and print its path, and return the exit code."""
    from rlher.export.exporter import export

    result = export(config)
    print(json.dumps(result) if config.json else console.escape_control(result["folder"]))
    play = console.command_line(["python", "-P", str(Path(result["folder"], "play.py"))])
    print(console.escape_control(f"play it: {play}"), file=sys.stderr)
    return 0
