"""A sweep (``rlher train -m``): its runs are trained side by side, finished ones skipped, unfinished ones resumed.

A run belongs to the sweep if it has the same experiment, its seed included, in the same folder ``logs``. A sweep has no
other state, so the same command again, or one with more seeds, trains what is missing.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rlher.config.training import experiment_id
from rlher.config.tuning import SweepJob, train_config
from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault, UserError, os_error_reason
from rlher.core.safe_read import read_json, read_text
from rlher.core.signals import INTERRUPTED, interrupt_on_stop_signals, signal_name
from rlher.runs import lookup
from rlher.tuning.launchers import Launcher, Task, Worker, make_launcher, start_imports, stop_all, wait_for_any
from rlher.tuning.live_table import LiveTable
from rlher.tuning.sweep_progress import SweepProgress
from rlher.tuning.sweep_run import State, SweepRun, train_run

POLL_SECONDS = 1.0


def train_sweep(jobs: Sequence[SweepJob]) -> tuple[list[SweepRun], int]:
    """Train the runs of a sweep that are not finished.

    :param jobs: the runs; the workers of the first one are used.
    :return: the runs, and the exit code: the largest of any run, or 130 after Ctrl-C.
    :raises UserError: the launcher cannot be used.
    """
    config = jobs[0].config
    runs = _sweep_runs(jobs)
    waiting = [run for run in runs if run.state is State.WAITING]
    if len(waiting) < len(runs):
        print(f"{len(runs) - len(waiting)} of {len(runs)} runs are finished and skipped", file=sys.stderr)
    if not waiting:
        return runs, 0
    _make_log_folder(waiting[0].log.parent)
    start_imports(config)
    launch = make_launcher(config)
    print(
        f"{len(waiting)} runs, {config.workers} at a time; their output is in {waiting[0].log.parent}", file=sys.stderr
    )
    try:
        with interrupt_on_stop_signals(), SweepProgress(runs, config.progress) as progress:
            code = _supervise(waiting, config.workers, launch, progress)
    except KeyboardInterrupt:
        finished = sum(run.state is State.FINISHED for run in runs)
        warn(f"stopped after {finished} of {len(runs)} runs; run the same command again to continue.")
        return runs, INTERRUPTED
    for run in runs:
        if run.state is State.FAILED:
            warn(f"{run.name} failed: {run.reason.rstrip('.')}; its output is in {run.log}.")
    return runs, code


def _make_log_folder(folder: Path) -> None:
    """Create the folder of the workers' output.

    :raises UserError: it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        advice = "free space or choose another folder with logs=…"
        raise UserError(f"cannot write {folder}: {os_error_reason(error)}; {advice}.") from error


def _sweep_runs(jobs: Sequence[SweepJob]) -> list[SweepRun]:
    """Return the runs of a sweep, those of the same experiment once; warn of the others."""
    runs: dict[str, SweepRun] = {}
    for name, command, config in jobs:
        # One thread each, because runs side by side that use all cores slow each other down.
        logs = os.path.abspath(config.logs) if config.launcher == "ray" else config.logs  # a task's folder is another
        run = SweepRun(
            name, command, replace(train_config(config), logs=logs, threads=config.threads or 1, progress=False)
        )
        other = runs.setdefault(experiment_id(run.config), run)
        if other is not run:
            warn(f"left out {name}: the same experiment as {other.name}.")
        run.update_folder()
        if run.folder and lookup.is_finished(run.folder):
            run.state = State.FINISHED
    return list(runs.values())


def _supervise(waiting: Sequence[SweepRun], n_workers: int, launch: Launcher, progress: LiveTable) -> int:
    """Train the waiting runs, some at a time, and return the largest exit code; stop them if this is interrupted."""
    queue, running, codes = list(waiting), dict[Worker, SweepRun](), [0]
    try:
        while queue or running:
            while queue and len(running) < n_workers:
                run = queue.pop(0)
                running[launch(_task(run))] = run
                run.state = State.RUNNING
            for worker, run in list(running.items()):
                run.update_folder()
                if not worker.is_alive():
                    del running[worker]
                    codes.append(_record_end(run, worker.exit_code()))
            progress.update()
            if running:
                wait_for_any(list(running), POLL_SECONDS)
    except KeyboardInterrupt:
        print("\nrlher: stopping each run after its step; press Ctrl-C again to kill them", file=sys.stderr)
        raise
    finally:
        stop_all(list(running), None)
        for run in running.values():
            run.state = State.STOPPED
        progress.update()
    return max(codes)


def _task(run: SweepRun) -> Task:
    return Task(partial(train_run, run.config, run.command), run.log, run.config.threads or 1)


def _record_end(run: SweepRun, code: int) -> int:
    """Record how a run ended, and return its exit code; a run that was killed has that of a failed one."""
    run.state = State.FAILED if code else State.FINISHED
    run.reason = _reason(run, code) if code else ""
    return EnvironmentFault.exit_code if code < 0 else code


def _reason(run: SweepRun, code: int) -> str:
    """Return why a run failed: its signal, the error in its result, or the last line of its output."""
    if code < 0:
        return f"killed by {signal_name(-code)}"
    if run.folder and (error := read_json(run.folder / "result.json").get("error")):
        return str(error)
    lines = read_text(run.log).splitlines()
    return lines[-1].removeprefix("rlher: ") if lines else f"exit code {code}"
