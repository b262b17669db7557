"""A study that many workers share: opening it, counting its trials, and giving dead workers' trials to others.

Every trial belongs to the study's total unless another took its place: a dead worker's trial is recorded as failed and
queued again with the same parameters, and of two workers that reach for the last trial at once one steps back.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

import optuna
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from rlher.core.errors import UserError
from rlher.tuning.worker_id import is_gone

MAX_RETRY = 2  # a trial that kills its worker three times is a failed trial
NAMELESS_SECONDS = 120  # a worker that has not put its name to its trial in this time never will
IDENTITY, BASELINE, WORKER, SURPLUS = "rlher", "baseline", "worker", "surplus"
Judge = Callable[[str], bool]


def open_study(
    storage: BaseStorage,
    name: str,
    directions: Sequence[StudyDirection],
    identity: dict[str, Any],
    first: Iterable[dict[str, Any]] = (),
) -> tuple[Study, bool]:
    """Create a study, or join it.

    :param identity: what must be the same for two commands to share a study; kept in it.
    :param first: parameters of the trials queued at its creation, the baseline before all others.
    :return: the study, and whether it was created now.
    :raises UserError: there is a study of this name that searches for something else.
    """
    try:
        study = optuna.create_study(storage=storage, study_name=name, directions=directions)
    except DuplicatedStudyError:
        study = optuna.load_study(storage=storage, study_name=name)
        _require_same(study, identity)
        return study, False
    for params in first:
        study.enqueue_trial(params, user_attrs={BASELINE: True})
    study.set_user_attr(IDENTITY, identity)
    return study, True


def _require_same(study: Study, identity: dict[str, Any]) -> None:
    for _ in range(50):  # its creator may be about to write it
        theirs = study.user_attrs.get(IDENTITY)
        if isinstance(theirs, dict):
            break
        time.sleep(0.1)
    else:
        raise UserError(f"the study {study.study_name!r} was not made by rlher optimize: give another --study-name.")
    ours = json.loads(json.dumps(identity))
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        if ours.get(key) != theirs.get(key):
            was, asked = theirs.get(key, "nothing"), ours.get(key, "nothing")
            raise UserError(
                f"the study {study.study_name!r} was made with {key}={was}, not {asked}: "
                "give another --study-name, or the same keys as before."
            )


def counted(study: Study) -> list[FrozenTrial]:
    """List the trials that the total counts: neither superseded by a second try, nor one too many."""
    trials = study.get_trials(deepcopy=False)
    superseded = {number for trial in trials for number in RetryHeartbeatStaleTrialCallback.retry_history(trial)}
    return [trial for trial in trials if trial.number not in superseded and SURPLUS not in trial.user_attrs]


def unclaimed(study: Study, total: int) -> int:
    """Return how many trials of the total nobody has begun."""
    trials = counted(study)
    waiting = sum(trial.state is TrialState.WAITING for trial in trials)
    return waiting + max(total - len(trials), 0)


def is_surplus(study: Study, number: int, total: int) -> bool:
    """Tell whether a trial just begun is one more than the total, because another worker began one at the same time."""
    trials = counted(study)
    if any(trial.number == number and _is_queued(trial) for trial in trials):
        return False
    return sum(trial.number < number or _is_queued(trial) for trial in trials) >= total


def _is_queued(trial: FrozenTrial) -> bool:
    return "fixed_params" in trial.system_attrs or bool(RetryHeartbeatStaleTrialCallback.retry_history(trial))


def queue_again(study: Study, trial: FrozenTrial, max_retry: int | None = MAX_RETRY) -> None:
    """Queue a failed trial's parameters once more, unless that was done ``max_retry`` times."""
    trial.user_attrs = {key: value for key, value in trial.user_attrs.items() if key == BASELINE}
    RetryHeartbeatStaleTrialCallback(max_retry)(study, trial)


def free(study: Study, number: int) -> None:
    """Take a running trial from its worker: it is recorded as failed, and queued again."""
    try:
        trial = study.tell(number, state=TrialState.FAIL)
    except (UpdateFinishedTrialError, ValueError):  # somebody else did so first
        return
    queue_again(study, trial)


def free_dead(study: Study, is_dead: Judge = is_gone) -> None:
    """Free the trials of dead workers.

    :param is_dead: tells so of a worker by its id; a database's heartbeat is asked besides.
    """
    now = datetime.now(timezone.utc)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        worker = trial.user_attrs.get(WORKER)
        if is_dead(worker) if worker else _age(trial, now) > NAMELESS_SECONDS:
            free(study, trial.number)
    fail_stale_trials(study)


def _age(trial: FrozenTrial, now: datetime) -> float:
    begun = trial.datetime_start or now
    return (now - begun.astimezone(timezone.utc)).total_seconds()
