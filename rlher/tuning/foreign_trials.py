"""Refuse a study with trials that rlher did not write: a storage is shared, and other programs may write to it."""

from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from rlher.core.errors import UserError
from rlher.core.nested import finite_float
from rlher.tuning.scoring import has_score
from rlher.tuning.search_space import Space, foreign_parameter


class ForeignTrial(UserError):
    """A study has a trial of another program; ``number`` is the trial's."""

    def __init__(self, study: Study, number: int, reason: str) -> None:
        super().__init__(
            f"trial {number} of the study {study.study_name!r} {reason}, so another program wrote it; choose another "
            "--study-name."
        )
        self.number = number


def require_own_trials(study: Study, space: Space) -> None:
    """Raise ForeignTrial if a trial has parameters outside of the search space, or lacks what rlher stores in it.

    The best trials are trained again with all their parameters. Another program may have written them, and a key such
    as ``env.modules`` would run any code.
    """
    for trial in study.get_trials(deepcopy=False):
        if reason := _foreign_reason(trial, space, len(study.directions)):
            raise ForeignTrial(study, trial.number, reason)


def _foreign_reason(trial: FrozenTrial, space: Space, n_values: int) -> str | None:
    """Return what rlher would not have written, None if a trial is its own."""
    queued, history = trial.system_attrs.get("fixed_params", {}), RetryHeartbeatStaleTrialCallback.retry_history(trial)
    if not isinstance(queued, dict):
        return f"is queued with {queued!r} in place of parameters"
    if key := foreign_parameter(space, queued) or foreign_parameter(space, trial.params):
        return f"has a value of {key!r} that is not in its search space"
    if not isinstance(history, list) or not all(isinstance(number, int) for number in history):
        return f"was repeated for {history!r} in place of trials"
    if trial.state is not TrialState.COMPLETE:
        return None
    if missing := space.keys() - trial.params.keys():
        return f"has no value of {min(missing)!r}"
    if len(trial.values or ()) != n_values or any(finite_float(value) is None for value in trial.values):
        return f"has the values {trial.values}"
    return None if has_score(trial) else "is complete without a score"
