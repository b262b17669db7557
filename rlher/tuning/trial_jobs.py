"""Runs the trials of a study in worker processes, and repeats those whose worker or command died.

The command asks Optuna for the parameters of each trial, and tells it how the trial ended. A worker trains, and reports
evaluations to the pruner. Several commands may share a study; each runs its own trials.
"""

import functools
import os
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import optuna
import psutil
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import RandomSampler
from optuna.storages import BaseStorage, JournalStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import Study, StudyDirection
from optuna.trial import Trial, TrialState

from rlher.config.tuning import OptimizeConfig
from rlher.jobs.parallel import Job, Jobs
from rlher.jobs.progress_table import Row
from rlher.tuning.samplers import make_pruner
from rlher.tuning.search_space import Space
from rlher.tuning.study_storage import MAX_RETRY, open_storage, wait_for_database
from rlher.tuning.trials import COLUMNS, REASON, count_unstarted, counted_trials, trial_row

Objective = Callable[[Trial], float]
OWNER = "owner"
"""User attribute of a trial: the process that runs it, as :func:`owner_id` returns it."""
MAX_UNOWNED = timedelta(seconds=30)
"""Time until a trial without an owner is repeated: the database was lost while the trial was created."""
MAX_BEST = 5
"""Completed trials in the table of progress."""


@dataclass(frozen=True)
class TrialSpec:
    """Everything that trials need; it is pickled and sent to workers.

    :param space: the parameters of a trial.
    :param folder: the study's folder, with the journal, unless there is a database, and the output of trials.
    :param total: number of trials at which the study is complete.
    """

    config: OptimizeConfig
    study_name: str
    objective: Objective
    space: Space
    folder: Path
    total: int


class Outcome(NamedTuple):
    """How a trial ended."""

    state: TrialState
    value: float | None = None
    reason: str | None = None


class TrialJobs(Jobs):
    """The trials of a study that this command runs; the table shows the best and the running ones of all commands.

    :param runs_per_trial: training runs of a trial.
    :param runs_after: training runs that follow the study, for the estimate of the time left.
    """

    columns = ("trial", "state", *COLUMNS, "parameters")

    def __init__(
        self, study: Study, spec: TrialSpec, title: str = "", runs_per_trial: int = 1, runs_after: int = 0
    ) -> None:
        self.title, self.total = title, spec.total
        self._study, self._spec, self._trials_after = study, spec, runs_after / runs_per_trial
        self._running: list[int] = []
        """Numbers of the trials that were started, and whose end is not recorded."""
        self._next_heartbeat = 0.0

    def rows(self) -> list[Row]:
        """Return the rows of the table: the best trials, the running ones, and those that are not shown."""
        trials = counted_trials(self._study)
        completed = [trial for trial in trials if trial.state is TrialState.COMPLETE]
        is_maximised = self._study.direction is StudyDirection.MAXIMIZE
        best = sorted(completed, key=lambda trial: trial.values[0], reverse=is_maximised)[:MAX_BEST]
        shown = [*best, *(trial for trial in trials if trial.state is TrialState.RUNNING)]
        numbers = {trial.number for trial in shown}
        shown += [trial for trial in trials if trial.number not in numbers]
        return [trial_row(trial, trial.number in numbers) for trial in shown]

    def work(self) -> tuple[float, float]:
        """Return the number of finished trials, and that of all trials."""
        done = sum(trial.state.is_finished() for trial in counted_trials(self._study))
        return done, max(self.total, done) + self._trials_after

    def start(self, free: int) -> Iterator[Job]:
        """Yield trials until the study has as many as it is to have."""
        for _ in range(min(free, self._count_unstarted())):
            number = self._ask()
            self._running.append(number)
            log = self._spec.folder / "workers" / f"{self._spec.study_name}-{number}.log"
            yield Job(number, partial(run_trial, self._spec, number), log)

    @wait_for_database
    def end(self, number: int, future: Future) -> None:
        """Record how a trial ended; repeat it if its worker died."""
        if future.exception():
            fail_and_repeat(self._study, number)
        else:
            _tell(self._study, number, future.result())
        self._running.remove(number)

    def stop(self) -> None:
        """Queue the running trials again."""
        for number in self._running:
            fail_and_repeat(self._study, number, max_retry=None)

    @wait_for_database
    def is_complete(self) -> bool:
        """Return whether every trial is finished, by this command or by others that joined it."""
        unstarted = count_unstarted(self._study, self.total)
        return not unstarted and all(trial.state.is_finished() for trial in counted_trials(self._study))

    @wait_for_database
    def _count_unstarted(self) -> int:
        """Record heartbeats, repeat lost trials, and return how many trials are to be started."""
        if time.monotonic() >= self._next_heartbeat:
            for number in self._running:
                _record_heartbeat(self._study, number)
            self._next_heartbeat = time.monotonic() + self._spec.config.heartbeat / 2
        repeat_lost_trials(self._study)
        return count_unstarted(self._study, self.total)

    @wait_for_database
    def _ask(self) -> int:
        """Start a trial and return its number."""
        trial = self._study.ask(self._spec.space)
        _record_heartbeat(self._study, trial.number)  # a trial with an owner, but without a heartbeat, is never stale
        trial.set_user_attr(OWNER, owner_id())
        return trial.number


# ------------------------------------------------------------------------------------------ repeating


def fail_and_repeat(study: Study, number: int, max_retry: int | None = MAX_RETRY) -> None:
    """Record a running trial as failed, and queue it again unless it was repeated ``max_retry`` times."""
    if _tell(study, number, Outcome(TrialState.FAIL)):
        _queue_again(study, number, max_retry)


@wait_for_database
def _queue_again(study: Study, number: int, max_retry: int | None) -> None:
    trial = study.get_trials(deepcopy=True)[number]
    trial.user_attrs.pop(OWNER, None)
    RetryHeartbeatStaleTrialCallback(max_retry)(study, trial)


def repeat_lost_trials(study: Study) -> None:
    """Fail and repeat the running trials of dead commands.

    All commands of a journal run on this machine, so process ids suffice. Commands of a database may run elsewhere, and
    write heartbeats.
    """
    is_local = isinstance(study._storage, JournalStorage)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        owner = trial.user_attrs.get(OWNER)
        age = datetime.now() - (trial.datetime_start or datetime.now())
        if (owner and is_local and is_dead(owner)) or (not owner and age > MAX_UNOWNED):
            fail_and_repeat(study, trial.number)
    fail_stale_trials(study)


def owner_id() -> list:
    """Return host, number and start time of this process; the time tells processes apart that had the same number."""
    return [socket.gethostname(), os.getpid(), psutil.Process().create_time()]


def is_dead(owner: list) -> bool:
    """Return whether a process of this machine is dead."""
    host, pid, started = owner
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) < 60 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        same = False
    return host == socket.gethostname() and not same


def _record_heartbeat(study: Study, number: int) -> None:
    storage = study._storage
    if not isinstance(storage, JournalStorage):
        storage.record_heartbeat(_trial_id(study, number))  # type: ignore[attr-defined]


def _tell(study: Study, number: int, outcome: Outcome) -> bool:
    """Record how a trial ended, unless another process was first; return whether this one was."""
    state = None if outcome.state is TrialState.COMPLETE else outcome.state  # None: failed if a value is NaN
    try:
        if outcome.reason:
            study._storage.set_trial_user_attr(_trial_id(study, number), REASON, outcome.reason)
        study.tell(number, outcome.value, state)
    except (UpdateFinishedTrialError, ValueError):
        return False
    return True


def _trial_id(study: Study, number: int) -> int:
    return study._storage.get_trial_id_from_study_id_trial_number(study._study_id, number)


# -------------------------------------------------------------------------------------------- in a worker


def run_trial(spec: TrialSpec, number: int) -> Outcome:
    """Run a trial that the command asked for. If it raises, its output has the traceback."""
    try:
        return Outcome(TrialState.COMPLETE, spec.objective(_load_trial(spec, number)))
    except optuna.TrialPruned:
        return Outcome(TrialState.PRUNED)
    except Exception as error:  # a failed trial does not end the study
        traceback.print_exc()
        return Outcome(TrialState.FAIL, reason=f"{type(error).__name__}: {error}")


@wait_for_database
def _load_trial(spec: TrialSpec, number: int) -> Trial:
    study = optuna.load_study(
        study_name=spec.study_name,
        storage=_storage(spec.config.storage, spec.folder, spec.config.heartbeat),
        sampler=RandomSampler(),  # not used: the command has asked for all parameters
        pruner=make_pruner(spec.config),
    )
    return Trial(study, _trial_id(study, number))


@functools.lru_cache
def _storage(storage: str | None, folder: Path, heartbeat: int) -> BaseStorage:
    """Return the storage of a worker, which runs several trials."""
    return open_storage(storage, folder, heartbeat)
