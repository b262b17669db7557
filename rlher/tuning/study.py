"""A study shared by many workers: opening it, counting its trials and requeueing the trials of dead workers.

Two kinds of trials do not count towards the study's total: one that was requeued, since its retry counts, and a surplus
one, started at the same time as the last one by another worker.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import optuna
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from rlher.core.errors import UserError
from rlher.tuning.worker_id import is_dead_here

MAX_RETRY = 2  # a trial whose worker dies three times stays failed
UNNAMED_SECONDS = 30  # a trial that has no worker's id for so long has no worker, e.g. if its creation got no reply
IDENTITY, BASELINE, WORKER, SURPLUS = "rlher", "baseline", "worker", "surplus"
"""User attributes of a study (the first) and of its trials."""


def open_study(
    storage: BaseStorage,
    name: str,
    directions: Sequence[StudyDirection],
    identity: dict[str, Any],
    baseline: Iterable[dict[str, Any]] = (),
    defaults: Mapping[str, Any] | None = None,
) -> tuple[Study, bool]:
    """Create or join a study.

    :param identity: settings that must be equal for two commands to share a study; stored in it.
    :param baseline: parameters of the trials to queue when the study is created.
    :param defaults: values of the keys of ``identity`` that a study from an older version may lack.
    :return: the study, and whether it was created now.
    :raises UserError: a study of this name has another identity.
    """
    try:
        study = optuna.create_study(storage=storage, study_name=name, directions=directions)
    except DuplicatedStudyError:
        study = optuna.load_study(storage=storage, study_name=name)
        _require_identity(study, identity, defaults or {})
        return study, False
    for params in baseline:
        study.enqueue_trial(params, user_attrs={BASELINE: True})
    study.set_user_attr(IDENTITY, identity)
    return study, True


def _require_identity(study: Study, identity: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise UserError if the study has another identity; keys that only another version has are ignored."""
    name = study.study_name
    for _ in range(50):  # the command that created the study may not have written it yet
        stored = study.user_attrs.get(IDENTITY)
        if isinstance(stored, dict):
            break
        time.sleep(0.1)
    else:
        raise UserError(f"the study {name!r} was not created by rlher optimize; choose another --study-name.")
    requested, defaults = json.loads(json.dumps([identity, dict(defaults)]))
    for key in [*requested, *stored]:
        if key in requested or key in defaults or any(key.startswith(f"{parent}.") for parent in requested):
            old, new = (values.get(key, defaults.get(key)) for values in (stored, requested))
            if old != new:
                why = f"has {key}={old}, this command {new}"
                raise UserError(f"the study {name!r} {why}; choose another --study-name.")


def counted_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that count towards the total: neither requeued nor surplus."""
    trials = study.get_trials(deepcopy=False)
    requeued = {number for trial in trials for number in RetryHeartbeatStaleTrialCallback.retry_history(trial)}
    return [trial for trial in trials if trial.number not in requeued and SURPLUS not in trial.user_attrs]


def count_unstarted(study: Study, total: int) -> int:
    """Return how many trials of the total no worker has started."""
    trials = counted_trials(study)
    waiting = sum(trial.state is TrialState.WAITING for trial in trials)
    return waiting + max(total - len(trials), 0)


def is_surplus(study: Study, number: int, total: int) -> bool:
    """Return whether a trial just started exceeds the total, because another worker started one at the same time."""
    trials = counted_trials(study)
    if any(trial.number == number and _was_queued(trial) for trial in trials):
        return False
    return sum(trial.number < number or _was_queued(trial) for trial in trials) >= total


def _was_queued(trial: FrozenTrial) -> bool:
    return "fixed_params" in trial.system_attrs or bool(RetryHeartbeatStaleTrialCallback.retry_history(trial))


def requeue(study: Study, trial: FrozenTrial, max_retry: int | None = MAX_RETRY) -> None:
    """Queue a failed trial's parameters again, unless they were retried ``max_retry`` times."""
    trial.user_attrs = {key: value for key, value in trial.user_attrs.items() if key == BASELINE}
    RetryHeartbeatStaleTrialCallback(max_retry)(study, trial)


def fail_and_requeue(study: Study, number: int) -> None:
    """Record a running trial as failed and queue its parameters again."""
    try:
        trial = study.tell(number, state=TrialState.FAIL)
    except (UpdateFinishedTrialError, ValueError):  # another process was first
        return
    requeue(study, trial)


def requeue_trials_of_dead_workers(study: Study, is_dead: Callable[[str], bool] = is_dead_here) -> None:
    """Fail and requeue the running trials of dead workers.

    :param is_dead: takes a worker's id; in a database a missing heartbeat counts as well.
    """
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        worker = trial.user_attrs.get(WORKER)
        if is_dead(worker) if worker else (elapsed_seconds(trial) or 0) > UNNAMED_SECONDS:
            fail_and_requeue(study, trial.number)
    fail_stale_trials(study)


def elapsed_seconds(trial: FrozenTrial) -> float | None:
    """Return how long a trial took, or has taken so far; None if it has not started."""
    if trial.datetime_start is None:
        return None
    end = trial.datetime_complete or datetime.now(UTC)
    return (end.astimezone(UTC) - trial.datetime_start.astimezone(UTC)).total_seconds()
