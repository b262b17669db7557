"""The process from which local workers are forked: it has imported what they need, so that each starts at once."""

from collections.abc import Sequence
from multiprocessing import forkserver, get_context

CONTEXT = get_context("forkserver")
"""Workers are not forked from the command itself, because a fork of a process that has used torch may hang."""
RUN_MODULES = ("rlher.training.resume", "sb3_contrib", "scipy.stats")
"""What a training run imports, some of it late."""
TRIAL_MODULES = (*RUN_MODULES, "rlher.tuning.worker", "rlher.tuning.objective")
"""What a trial of `rlher optimize` imports."""


def start(modules: Sequence[str]) -> None:
    """Start the server if it is not running; it imports the modules while the caller goes on."""
    CONTEXT.set_forkserver_preload(list(modules))
    forkserver.ensure_running()
