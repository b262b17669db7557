"""The trials of a study: which ones count, and which are best."""

import json
from typing import Any

import numpy as np
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from rlher.core.errors import UserError
from rlher.tuning.scoring import has_score, mean_score, score_of
from rlher.tuning.search_space import SearchSpace, contains
from rlher.tuning.study_storage import wait_for_database

HEARTBEAT = "heartbeat"
"""User attribute of a trial: when the command that runs it was last known to be alive, in seconds since 1970."""
REASON = "reason"
"""User attribute of a trial: why it failed."""


@wait_for_database
def counted_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that count towards the total. A trial that was retried does not count; its retry does."""
    trials = study.get_trials(deepcopy=False)
    histories = map(RetryHeartbeatStaleTrialCallback.retry_history, trials)
    retried = [number for history in histories if isinstance(history, list) for number in history]
    return [trial for trial in trials if trial.number not in retried]


def completed_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that count and have a score; another program may have completed trials without one."""
    return [trial for trial in counted_trials(study) if trial.state is TrialState.COMPLETE and has_score(trial)]


def count_unstarted(study: Study, total: int) -> int:
    """Return how many trials of the total have not been started."""
    trials = counted_trials(study)
    waiting = sum(trial.state is TrialState.WAITING for trial in trials)
    return waiting + max(total - len(trials), 0)


def rank_trials(study: Study) -> list[FrozenTrial]:
    """Return the completed trials, best first: by their value, and those of equal value by their return.

    Trials with the same parameters, which had different seeds, are one entry: the first, ranked by their means.
    """
    groups: dict[str, list[FrozenTrial]] = {}
    for trial in completed_trials(study):
        groups.setdefault(json.dumps(trial.params, sort_keys=True), []).append(trial)

    def rank(trials: list[FrozenTrial]) -> tuple[float, float]:
        value = float(np.mean([trial.values[0] for trial in trials]))
        return value, mean_score([score_of(trial) for trial in trials]).mean_reward

    return [trials[0] for trials in sorted(groups.values(), key=rank, reverse=True)]


def checked_params(trial: Trial | FrozenTrial, space: SearchSpace) -> dict[str, Any]:
    """Return the parameters of a trial, to train with them or to write them into a recipe.

    They are checked each time, because another program may write into the database at any time, and a key such as
    ``env.modules`` would run any code.

    :raises UserError: they are outside of the search space.
    """
    params = trial.params  # read once: the next read may return others
    if not contains(space, params):
        why = "its parameters are outside of the search space; choose another --study-name."
        raise UserError(f"another program wrote trial {trial.number} of the study: {why}")
    return params


def state_name(trial: FrozenTrial) -> str:
    """Return Optuna's name of a trial's state: complete, pruned, fail, running or waiting."""
    return trial.state.name.lower()


def failure_reason(trial: FrozenTrial) -> str:
    """Return why a trial failed."""
    return str(trial.user_attrs.get(REASON, "its worker died"))  # another program may have stored anything


def short_value(value: Any) -> str:
    """Return a parameter for a table; a list without blanks."""
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace(" ", "")
