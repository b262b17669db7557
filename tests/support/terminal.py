"""A command whose output is a pseudo-terminal, and a stream that says that it is one."""

import io
import os
import pty
import subprocess
from collections.abc import Sequence
from pathlib import Path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_on_terminal(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run a command in a folder and return its exit code and what it shows."""
    master, slave = pty.openpty()
    process = subprocess.Popen(command, cwd=folder, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    try:
        while chunk := os.read(master, 65536):
            shown += chunk
    except OSError:  # Linux: the other end is closed
        pass
    os.close(master)
    return process.wait(), shown.decode()
