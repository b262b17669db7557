"""A sweep (``rlher train -m``): train its runs side by side, skip finished runs, and resume unfinished runs.

An existing run belongs to the sweep if it has the same experiment and seed, in the same folder ``logs``. A sweep has no
other state. So the same command again, or a command with more seeds, trains the missing runs.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rlher.config.compose import compose
from rlher.config.key import param_values, values_by_key
from rlher.config.overrides import command_text, override_words
from rlher.config.training import SWEEP_KEYS, RunConfig, TrainConfig
from rlher.core import fork_server, signals
from rlher.core.console import print_note, warn
from rlher.core.errors import ReportedError, RunError, describe_error
from rlher.core.writing import as_write_error
from rlher.evaluation.evaluations_csv import read_last_evaluation
from rlher.jobs.job_pool import JobPool
from rlher.jobs.job_source import Job, JobSource, ProgressRow
from rlher.run import lookup
from rlher.run.result import Status
from rlher.run.run_folder import read_result, safe_name
from rlher.training.messages import print_result
from rlher.training.resume import resume_config, resume_run
from rlher.training.train_run import train_run

UNLOCK_TIMEOUT = 60
"""Time limit for another process to stop training a run: the runs of a killed sweep write a checkpoint first."""

STATUS_ORDER = (Status.WAITING, Status.RUNNING, Status.INTERRUPTED, Status.FAILED, Status.FINISHED)
"""Order of the table, which leaves out waiting runs."""


@dataclass
class SweepRun:
    """A run of a sweep.

    :param name: the overrides that differ from other runs of the sweep, such as ``seed=3``, or all overrides if none
        differs.
    :param command_line: the command line of this run alone, for the run folder.
    :param error: why the run failed.
    """

    name: str
    command_line: str
    config: RunConfig
    status: Status = Status.WAITING
    error: ReportedError | None = None
    _folder: Path | None = None

    @property
    def folder(self) -> Path | None:
        """The run folder, which the worker creates."""
        if self._folder is None and self.status is not Status.WAITING:
            self._folder = lookup.find_run_of_experiment(self.config)
        return self._folder

    @property
    def log_path(self) -> Path:
        """Path of the worker's output."""
        digest = hashlib.sha256(self.command_line.encode()).hexdigest()[:8]
        return Path(self.config.logs, "sweeps", f"{safe_name(self.name)[:80]}-{digest}.log")

    @property
    def failure_message(self) -> str:
        """Why the run failed, and where its output is."""
        return f"{self.name} failed: {str(self.error).rstrip('.')}; its output is in {self.log_path}."

    def last_evaluation(self) -> Mapping[str, Any]:
        """Return the final evaluation, or the last evaluation so far, or an empty one if there is none yet."""
        if self.folder is None:
            return {}
        if self.status is Status.FINISHED:
            return read_result(self.folder)
        return read_last_evaluation(self.folder)

    def row(self) -> ProgressRow:
        """Return the row of the progress table."""
        last = self.last_evaluation()
        steps, cells = 0.0, ("0", "–", "–")
        with contextlib.suppress(KeyError, ValueError, TypeError):  # there is none, or the file is damaged
            steps, success, reward = (float(last[name]) for name in ("timesteps", "success_rate", "mean_reward"))
            cells = (f"{steps:,.0f}", f"{success:.1%}", f"{reward:.2f}")
        started = self.status is not Status.WAITING
        ended = self.status in (Status.FAILED, Status.FINISHED)
        progress = 1 if ended else min(steps / max(self.config.total_timesteps, 1), 0.99)
        reason = str(self.error or "")
        return ProgressRow(self.name, self.status, cells, started, is_printed=started, progress=progress, reason=reason)


class SweepSource(JobSource):
    """Supplies the waiting runs of a sweep as jobs."""

    columns = ("run", "state", "steps", "success", "return")

    def __init__(self, runs: list[SweepRun]) -> None:
        titles = {run.config.title for run in runs}
        self.runs = runs
        self.total = len(runs)
        self.title = titles.pop() if len(titles) == 1 else "sweep"

    def rows(self) -> list[ProgressRow]:
        """Return the rows of the table, by state."""
        return [run.row() for run in sorted(self.runs, key=lambda run: STATUS_ORDER.index(run.status))]

    def next_jobs(self, max_jobs: int) -> Iterator[Job]:
        """Yield waiting runs."""
        waiting = [run for run in self.runs if run.status is Status.WAITING]
        for run in waiting[:max_jobs]:
            run.status = Status.RUNNING
            yield Job(run, partial(train_or_resume, run.config, run.command_line), run.log_path)

    def on_end(self, run: SweepRun, error: BaseException | None) -> None:
        """Record how a run ended. A run whose process was killed has failed."""
        run.status = Status.FAILED if error else Status.FINISHED
        if error:
            run.error = error if isinstance(error, ReportedError) else RunError(describe_error(error))

    def on_interrupt(self) -> None:
        """Mark the running runs as interrupted."""
        for run in self.runs:
            if run.status is Status.RUNNING:
                run.status = Status.INTERRUPTED

    def is_complete(self) -> bool:
        """Return whether all runs have been started."""
        return all(run.status is not Status.WAITING for run in self.runs)


def train_sweep(overrides: Sequence[Mapping[str, Any]]) -> tuple[list[SweepRun], bool]:
    """Train the runs of a sweep that are not finished.

    :param overrides: the overrides of each run. Those of the first run set how many runs are trained at a time.
    :return: the distinct runs, and whether Ctrl-C or SIGTERM ended the sweep early.
    :raises UserError: a config or the launcher cannot be used.
    """
    configs = [compose(TrainConfig, each) for each in overrides]
    config = configs[0]
    runs = distinct_runs(overrides, configs)
    for run in runs:
        folder = lookup.find_run_of_experiment(run.config)
        if folder and lookup.is_finished(folder):
            run.status = Status.FINISHED

    waiting = [run for run in runs if run.status is Status.WAITING]
    logs = runs[0].log_path.parent
    if waiting:
        with as_write_error(logs):
            logs.mkdir(parents=True, exist_ok=True)
    if config.progress:
        count = f"{len(waiting)} of {len(runs)} runs are to be trained"
        print_note(f"{count}, {config.workers} at a time; their output is in {logs}")
    if not waiting:
        return runs, False

    if config.launcher == "local":
        fork_server.start(fork_server.JOB_MODULES)
    try:
        # Ray resumes a run on another node if its node dies.
        with signals.interrupt_on_stop_signals(), JobPool(config, ray_retries=-1) as pool:
            pool.run(SweepSource(runs))
    except KeyboardInterrupt:
        finished = sum(run.status is Status.FINISHED for run in runs)
        warn(f"stopped after {finished} of {len(runs)} runs; run the same command again to continue.")
        return runs, True

    for run in runs:
        if run.error:
            warn(run.failure_message)
    return runs, False


def distinct_runs(overrides: Sequence[Mapping[str, Any]], configs: Sequence[TrainConfig]) -> list[SweepRun]:
    """Return the runs of a sweep, each with the command line that trains it alone.

    Of several runs with the same experiment in the same folder, only the first run is kept.

    :param overrides: the overrides of each run.
    :param configs: the config of each run.
    """
    common = set.intersection(*(set(override_words(each)) for each in overrides))
    runs: dict[str, SweepRun] = {}
    for each, config in zip(overrides, configs, strict=True):
        all_words = override_words(each)
        name = " ".join([word for word in all_words if word not in common] or all_words)
        of_run = {key: value for key, value in each.items() if key not in SWEEP_KEYS}
        # A Ray task has another current folder, so the path must be absolute.
        logs = os.path.abspath(config.logs) if config.launcher == "ray" else config.logs
        single_config = replace(config.for_parallel_run(), logs=logs, progress=True)
        run = SweepRun(name, command_text("train", of_run), single_config)
        kept = runs.setdefault(repr((logs, param_values(single_config))), run)
        if kept is not run:
            warn(f"left out {name}: the same experiment as {kept.name}.")
    return list(runs.values())


def train_or_resume(config: RunConfig, command_line: str) -> None:
    """Train a run in a worker, or resume the run if it has a folder.

    :param command_line: the command line of the run, for the run folder.
    :raises UserError: the run cannot be trained.
    :raises RunError: the run failed.
    """
    folder = lookup.find_run_of_experiment(config)
    if folder and lookup.is_finished(folder):  # Ray retries a task whose node died before it reported the end
        return
    run, result = _resume(folder, config, command_line) if folder else train_run(config, command_line)
    print_result(run, result)


def _resume(folder: Path, config: RunConfig, command_line: str) -> Any:
    """Resume a run as soon as no other process trains it. Keys that may change get the sweep's values."""
    kept = {*param_values(config), "recipe"}
    changes = {key: value for key, value in values_by_key(config).items() if key not in kept}
    return resume_run(resume_config({**changes, "run": str(folder)}), command_line, UNLOCK_TIMEOUT)
