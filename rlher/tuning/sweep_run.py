"""A run of a sweep: its state as seen by the command, and what its worker does."""

import csv
import io
import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import tenacity

from rlher import COMMAND
from rlher.config.training import TrainConfig, experiment_id
from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault, UserError, exit_as_fault
from rlher.core.safe_read import read_json, read_text
from rlher.runs import lookup
from rlher.runs.run_folder import Run, RunIsLocked, safe_name
from rlher.training.result import RunResult

UNLOCK_SECONDS = 60
"""Time limit for another process to stop training a run: the runs of a killed sweep write a checkpoint first."""


class State(StrEnum):
    """How far a run of a sweep is."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass
class SweepRun:
    """A run of a sweep.

    :param name: its overrides that other runs of the sweep do not have: ``seed=3``.
    :param command: the command line of this run alone, for the run folder.
    :param folder: its run folder, once it is known; a dry run has none here.
    :param reason: why it failed.
    """

    name: str
    command: str
    config: TrainConfig
    state: State = State.WAITING
    folder: Path | None = None
    reason: str = ""

    @property
    def log(self) -> Path:
        """Path of the worker's output."""
        name = f"{safe_name(self.name)[:80]}-{experiment_id(self.config)[:8]}.log"
        return Path(self.config.logs) / "sweeps" / name

    def update_folder(self) -> None:
        """Look for the run folder, which the worker creates."""
        if self.folder is None and not self.config.dry_run:
            self.folder = lookup.find_experiment(self.config)

    def last_evaluation(self) -> dict[str, Any]:
        """Return the final evaluation of a finished run, else the last one so far; empty if there is none."""
        if self.folder is None:
            return {}
        if self.state is State.FINISHED:
            return read_json(self.folder / "result.json")
        *_, last = [{}, *csv.DictReader(io.StringIO(read_text(self.folder / "evaluations.csv")))]
        return {name: float(value) for name, value in last.items() if value}


def train_run(config: TrainConfig, command: str) -> int:
    """Train a run, or resume it if it has a folder, in a worker; return the exit code, as of `rlher train`.

    :param command: its command line, for the run folder.
    """
    from rlher.training.result import print_result
    from rlher.training.trainer import train

    os.environ[COMMAND] = command
    _stop_with_parent()
    folder = None if config.dry_run else lookup.find_experiment(config)
    if folder and lookup.is_finished(folder):  # Ray repeats a task whose node died before it reported the end
        return 0
    try:
        with exit_as_fault():
            run, result = _resume(folder, config) if folder else train(config)
    except (UserError, EnvironmentFault) as error:
        warn(str(error))
        return error.exit_code
    print_result(run, result)
    return result.exit_code


def _resume(folder: Path, config: TrainConfig) -> tuple[Run, RunResult]:
    """Resume a run, as soon as no other process trains it."""
    from rlher.training.resume import resume

    found = lookup.find(str(folder), config.logs, config.trust_code)
    unlocked = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(RunIsLocked),
        wait=tenacity.wait_fixed(1),
        stop=tenacity.stop_after_delay(UNLOCK_SECONDS),
        reraise=True,
    )
    return unlocked(resume, found, replace(found.config, progress=False))


def _stop_with_parent() -> None:
    """End this run as SIGTERM does when the command dies that started this process."""
    parent = multiprocessing.parent_process()
    if parent is None:  # a Ray task
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
