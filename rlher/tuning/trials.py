"""The trials of a study: how they are counted, run by workers, and repeated if a worker or a command died.

The command asks Optuna for the parameters of each trial, and tells it how the trial ended. A worker trains, and reports
evaluations to the pruner. Several commands may share a study; each runs its own trials.
"""

import functools
import os
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import RandomSampler
from optuna.storages import (
    BaseStorage,
    JournalStorage,
    RetryHeartbeatStaleTrialCallback,
    fail_stale_trials,
)
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from rlher.config.tuning import OptimizeConfig
from rlher.core.errors import UserError
from rlher.core.nested import finite_float
from rlher.training.parallel import POLL_SECONDS, Pool
from rlher.training.progress_table import ProgressTable
from rlher.tuning.samplers import make_pruner
from rlher.tuning.scoring import has_score
from rlher.tuning.search_space import Space, contains
from rlher.tuning.storage import MAX_RETRY, open_storage, wait_for_database

Objective = Callable[[Trial], float | Sequence[float]]
REASON, OWNER = "reason", "owner"
"""User attributes of a trial: why it failed, and the command that runs it."""
STOP_SECONDS = 15.0  # after which a worker that was stopped is killed
UNOWNED_SECONDS = 30  # a trial without an owner for so long has none, for example if its creation got no reply


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
    values: float | Sequence[float] | None = None
    reason: str | None = None


# --------------------------------------------------------------------------------------------- counting


@wait_for_database
def counted_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that count towards the total. A trial that was repeated does not count, its repetition does."""
    trials = study.get_trials(deepcopy=False)
    repeated = {number for trial in trials for number in RetryHeartbeatStaleTrialCallback.retry_history(trial)}
    return [trial for trial in trials if trial.number not in repeated]


def completed_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that count and were neither pruned nor failed."""
    return [trial for trial in counted_trials(study) if trial.state is TrialState.COMPLETE]


def count_unstarted(study: Study, total: int) -> int:
    """Return how many trials of the total have not been started."""
    trials = counted_trials(study)
    waiting = sum(trial.state is TrialState.WAITING for trial in trials)
    return waiting + max(total - len(trials), 0)


def elapsed_seconds(trial: FrozenTrial) -> float | None:
    """Return how long a trial took, or has taken so far; None if it has not started."""
    if trial.datetime_start is None:
        return None
    end = trial.datetime_complete or datetime.now(UTC)
    return (end.astimezone(UTC) - trial.datetime_start.astimezone(UTC)).total_seconds()


def require_own_trials(study: Study, space: Space) -> None:
    """Raise UserError if a trial has parameters outside of the search space, or is complete without a score.

    The best trials are trained again with all their parameters. Another program may have written them, and a key such
    as ``env.modules`` would run any code.
    """
    for trial in study.get_trials(deepcopy=False):
        queued, history = trial.system_attrs.get("fixed_params", {}), trial.system_attrs.get("retry_history", [])
        is_own = isinstance(queued, dict) and contains(space, {**trial.params, **queued})
        is_own &= isinstance(history, list) and all(isinstance(number, int) for number in history)
        if trial.state is TrialState.COMPLETE:
            is_own &= has_score(trial) and trial.params.keys() == space.keys()
            is_own &= all(finite_float(value) is not None for value in trial.values or [None])
        if not is_own:
            raise UserError(
                f"another program wrote trial {trial.number} of the study {study.study_name!r}: it has no score, or "
                "parameters outside of the search space; choose another --study-name."
            )


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
        owner_is_dead = owner is not None and is_local and is_dead(owner)
        has_no_owner = owner is None and (elapsed_seconds(trial) or 0) > UNOWNED_SECONDS
        if owner_is_dead or has_no_owner:
            fail_and_repeat(study, trial.number)
    fail_stale_trials(study)


def owner_id() -> str:
    """Return ``host:pid:start`` of this process; the start time tells processes apart that had the same pid."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start_time(os.getpid())}"


def is_dead(owner: str) -> bool:
    """Return whether a process of this machine is dead; an id that :func:`owner_id` cannot return counts as dead."""
    try:
        host, pid, start = str(owner).rsplit(":", 2)
        return _start_time(int(pid)) != start and host == socket.gethostname()
    except ValueError:
        return True


def _start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None if it is dead."""
    try:
        # proc(5): after the name in brackets come the state (3rd field), 18 more, and the start time (22nd).
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else rest[18]


# ------------------------------------------------------------------------------------- in the command


class TrialRunner:
    """Runs the trials of a study in the workers of a pool."""

    def __init__(self, study: Study, spec: TrialSpec, pool: Pool) -> None:
        self._study, self._spec, self._pool = study, spec, pool
        self._running: dict[Future, int] = {}
        """Numbers of the trials that were started, and whose end is not recorded."""
        self._next_heartbeat = 0.0

    def run(self, progress: ProgressTable) -> None:
        """Run trials until every trial of the study is finished, by this command or others that joined it.

        :raises KeyboardInterrupt: Ctrl-C or SIGTERM; the running trials are queued again.
        """
        try:
            while not self._advance():
                progress.update()
                if self._running:
                    wait(self._running, POLL_SECONDS, FIRST_COMPLETED)
                else:
                    time.sleep(POLL_SECONDS)
        except BaseException:
            self._pool.stop(STOP_SECONDS)
            for number in self._running.values():
                fail_and_repeat(self._study, number, max_retry=None)
            raise
        progress.update()

    @wait_for_database
    def _advance(self) -> bool:
        """Record the trials that have ended, start others, and return whether the study is complete."""
        for future, number in list(self._running.items()):
            if future.done():
                self._record_end(number, future)
                del self._running[future]  # here, because this method is repeated if the database is away
        self._record_heartbeats()
        repeat_lost_trials(self._study)
        n_unstarted = count_unstarted(self._study, self._spec.total)
        for _ in range(min(self._pool.size - len(self._running), n_unstarted)):
            self._start_trial()
        return not n_unstarted and all(trial.state.is_finished() for trial in counted_trials(self._study))

    def _record_end(self, number: int, future: Future) -> None:
        if future.exception():
            fail_and_repeat(self._study, number)
        else:
            _tell(self._study, number, future.result())

    def _record_heartbeats(self) -> None:
        if time.monotonic() >= self._next_heartbeat:
            for number in self._running.values():
                _record_heartbeat(self._study, number)
            self._next_heartbeat = time.monotonic() + self._spec.config.heartbeat / 2

    def _start_trial(self) -> None:
        trial = self._study.ask(self._spec.space)
        _record_heartbeat(self._study, trial.number)  # a trial with an owner, but without a heartbeat, is never stale
        trial.set_user_attr(OWNER, owner_id())
        log = self._spec.folder / "workers" / f"{self._spec.study_name}-{trial.number}.log"
        self._running[self._pool.submit(partial(run_trial, self._spec, trial.number), log)] = trial.number


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
        study.tell(number, outcome.values, state)
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
