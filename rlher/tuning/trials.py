"""The trials of a study: which ones count, and which are best."""

import json

import numpy as np
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from rlher.tuning.scoring import has_score, mean_score, score_of
from rlher.tuning.search_space import SearchSpace

FAILURE_REASON = "reason"
"""User attribute of a trial: why it failed."""


def counted_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that count towards the total. Of a trial and its retry, only the retry counts."""
    trials = study.get_trials(deepcopy=False)
    retried: list[int] = []
    for trial in trials:
        history = RetryHeartbeatStaleTrialCallback.retry_history(trial)
        if isinstance(history, list):  # another program may have stored anything
            retried += history
    return [trial for trial in trials if trial.number not in retried]


def completed_trials(study: Study, space: SearchSpace) -> list[FrozenTrial]:
    """Return the completed trials that count, have a score, and have exactly the distributions of the search space.

    Another program may have written other trials. They are ignored, because a parameter such as ``env.modules`` would
    run any code.
    """
    completed = [trial for trial in counted_trials(study) if trial.state is TrialState.COMPLETE]
    return [trial for trial in completed if has_score(trial) and trial.distributions == space]


def rank_trials(study: Study, space: SearchSpace) -> list[FrozenTrial]:
    """Return the completed trials, best first, sorted by value. Trials of equal value are sorted by return.

    Trials with the same parameters but different seeds are one entry: the first trial, ranked by their means.
    """
    groups: dict[str, list[FrozenTrial]] = {}
    for trial in completed_trials(study, space):
        groups.setdefault(json.dumps(trial.params, sort_keys=True), []).append(trial)

    def rank(trials: list[FrozenTrial]) -> tuple[float, float]:
        value = float(np.mean([trial.values[0] for trial in trials]))
        return value, mean_score([score_of(trial) for trial in trials]).mean_reward

    return [trials[0] for trials in sorted(groups.values(), key=rank, reverse=True)]


def failure_reason(trial: FrozenTrial) -> str:
    """Return why a trial failed."""
    return str(trial.user_attrs.get(FAILURE_REASON, "its worker died"))  # another program may have stored anything
