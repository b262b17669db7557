"""The life of a trial: Optuna is asked for its parameters, a worker runs it, and its end is recorded or it is retried.

A trial whose worker or command died is retried with the same parameters.
"""

import contextlib
import time
import traceback
from dataclasses import asdict
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from rlher.core.errors import describe_error
from rlher.tuning.samplers_and_pruners import make_pruner
from rlher.tuning.search_space import SearchSpace
from rlher.tuning.study_storage import open_storage, retry_while_database_is_away
from rlher.tuning.trial_runner import TrialRunner
from rlher.tuning.trials import HEARTBEAT, REASON

MAX_RETRY = 2
"""How often a trial whose worker or command died is retried."""


@retry_while_database_is_away
def ask(study: Study, space: SearchSpace) -> Trial:
    """Start a trial.

    If the connection breaks before the database replies, a trial may exist that nobody runs. It has no heartbeat, so it
    is retried as a lost one.
    """
    return study.ask(space)


@retry_while_database_is_away
def record_heartbeat(trial: Trial) -> None:
    """Record that the command of a trial is alive."""
    with contextlib.suppress(UpdateFinishedTrialError):  # another command took the trial for lost
        trial.set_user_attr(HEARTBEAT, time.time())


def fail_and_retry(study: Study, trial: Trial | FrozenTrial, max_retry: int | None = MAX_RETRY) -> None:
    """Record a running trial as failed, and queue it again unless it was retried ``max_retry`` times."""
    if _record_end(study, trial, TrialState.FAIL):
        _queue_again(study, trial, max_retry)


@retry_while_database_is_away
def _queue_again(study: Study, trial: Trial | FrozenTrial, max_retry: int | None) -> None:
    RetryHeartbeatStaleTrialCallback(max_retry)(study, study.get_trials()[trial.number])


@retry_while_database_is_away
def _record_end(
    study: Study, trial: Trial | FrozenTrial, state: TrialState | None, value: float | None = None, **attributes: Any
) -> bool:
    """Record how a trial ended, unless another process was first; return whether this one was.

    :param state: None: it is complete, or failed if the value is NaN.
    :param attributes: user attributes to store: its score, or the reason of its failure.
    """
    try:
        for name, entry in attributes.items():
            study._storage.set_trial_user_attr(trial._trial_id, name, entry)
        study.tell(trial.number, value, state)
    except (UpdateFinishedTrialError, ValueError):
        return False
    return True


def run_and_record(runner: TrialRunner, trial_id: int) -> None:
    """Run a trial that the command asked for, and record how it ended. If it raises, its output has the traceback."""
    trial = _load_trial(runner, trial_id)
    try:
        value, score = runner.run_trial(trial)
        _record_end(trial.study, trial, None, value, **asdict(score))
    except optuna.TrialPruned:
        _record_end(trial.study, trial, TrialState.PRUNED)
    except Exception as error:  # a failed trial does not end the study
        traceback.print_exc()
        _record_end(trial.study, trial, TrialState.FAIL, None, **{REASON: describe_error(error)})


@retry_while_database_is_away
def _load_trial(runner: TrialRunner, trial_id: int) -> Trial:
    storage = open_storage(runner.config.storage, runner.folder)
    study = optuna.load_study(study_name=runner.study_name, storage=storage, pruner=make_pruner(runner.config))
    return Trial(study, trial_id)
