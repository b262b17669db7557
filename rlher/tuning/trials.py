"""The trials of a study: which ones count, whether rlher wrote them, and how they are shown."""

from typing import Any

from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from rlher.core.errors import UserError
from rlher.core.nested import finite_float
from rlher.evaluation.metrics import TARGET_SUCCESS
from rlher.jobs.progress_table import Row
from rlher.tuning.objective import BASELINE_NUMBER, RERUN_SEEDS, RERUN_SPACE
from rlher.tuning.scoring import format_steps, has_score, score_of
from rlher.tuning.search_space import SearchSpace, contains
from rlher.tuning.study_storage import wait_for_database

HEARTBEAT = "heartbeat"
"""User attribute of a trial: when the command that runs it was last known to be alive, in seconds since 1970."""
REASON = "reason"
"""User attribute of a trial: why it failed."""
HEADINGS = ("trial", "state", "success", f"{TARGET_SUCCESS}% at", "return", "parameters")
"""Headings of :func:`trial_row`."""


OTHER_PROGRAM = (
    "another program wrote trial {} of the study: it has no score, or parameters outside of the search space; choose "
    "another --study-name."
)


@wait_for_database
def counted_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that count towards the total. A trial that was repeated does not count, its repetition does."""
    trials = study.get_trials(deepcopy=False)
    histories = map(RetryHeartbeatStaleTrialCallback.retry_history, trials)
    repeated = [number for history in histories if isinstance(history, list) for number in history]
    return [trial for trial in trials if trial.number not in repeated]


def completed_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that count and were neither pruned nor failed."""
    return [trial for trial in counted_trials(study) if trial.state is TrialState.COMPLETE]


def count_unstarted(study: Study, total: int) -> int:
    """Return how many trials of the total have not been started."""
    trials = counted_trials(study)
    waiting = sum(trial.state is TrialState.WAITING for trial in trials)
    return waiting + max(total - len(trials), 0)


def require_valid_trials(study: Study, space: SearchSpace) -> None:
    """Raise UserError if a trial has parameters outside of the search space, or is complete without a score.

    The best trials are trained again with all their parameters. Another program may have written them, and a key such
    as ``env.modules`` would run any code.
    """
    if study.metric_names is not None:  # anything may stand there, and rlher writes none
        raise UserError("another program wrote metric names into the study; choose another --study-name.")
    for trial in study.get_trials(deepcopy=False):
        if not _is_valid(trial, space):
            raise UserError(OTHER_PROGRAM.format(trial.number))


def checked_params(trial: FrozenTrial, space: SearchSpace) -> dict[str, Any]:
    """Return the parameters of a trial, to train with them: a database may answer differently each time.

    :raises UserError: as :func:`require_valid_trials`.
    """
    if not contains(space, trial.params):
        raise UserError(OTHER_PROGRAM.format(trial.number))
    return trial.params


def _is_valid(trial: FrozenTrial, space: SearchSpace) -> bool:
    """Return whether a trial can be one of this search; its storage may hold values of any type."""
    try:
        known = contains(space, {**trial.params, **trial.system_attrs.get("fixed_params", {})})
        known &= {type(value) for value in trial.intermediate_values.values()} <= {float}
        if trial.state is TrialState.COMPLETE:
            known &= has_score(trial) and trial.params.keys() == space.keys() and finite_float(trial.value) is not None
        return known
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError):
        return False


# ----------------------------------------------------------------------------------------- text


def trial_row(trial: FrozenTrial, in_table: bool) -> Row:
    """Return the row of the progress table. Its score is "–" until the trial is complete."""
    cells = ("–", "–", "–")
    if has_score(trial):
        score = score_of(trial)
        cells = (f"{score.success:.1%}", format_steps(score.steps, score.solved_share), f"{score.mean_reward:.2f}")
    elif reported := list(trial.intermediate_values.values()):
        cells = (f"{reported[-1]:.0%} now", "–", "–")
    reason = failure_reason(trial) if trial.state is TrialState.FAIL else ""
    name, parameters = _name_and_parameters(trial)
    is_finished = trial.state.is_finished()
    return Row(name, state_name(trial), (*cells, parameters), in_table, is_finished, share=is_finished, reason=reason)


def state_name(trial: FrozenTrial) -> str:
    """Return Optuna's name of a trial's state: complete, pruned, fail, running or waiting."""
    return trial.state.name.lower()


def failure_reason(trial: FrozenTrial) -> str:
    """Return why a trial failed."""
    return str(trial.user_attrs.get(REASON, "its worker died"))  # another program may have stored anything


def _name_and_parameters(trial: FrozenTrial) -> tuple[str, str]:
    """Return ``"trial 4"`` and its parameters, or the candidate that a re-run trains again and the seed."""
    params = trial.params
    if params.keys() >= RERUN_SPACE.keys():
        candidate = params["candidate"]
        name = "baseline" if candidate == BASELINE_NUMBER else f"trial {candidate}"
        return f"re-run of {name}", f"seed={RERUN_SEEDS + params['seed']}"
    shown = (f"{key.rpartition('.')[2]}={format_value(value)}" for key, value in params.items())
    return f"trial {trial.number}", " ".join(shown)


def format_value(value: Any) -> str:
    """Return a parameter for a table; a list without blanks."""
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace(" ", "")
