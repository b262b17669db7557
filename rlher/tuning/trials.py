"""The trials of a study: which ones count, whether rlher wrote them, and how they are shown."""

from typing import Any

from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from rlher.core.errors import UserError
from rlher.evaluation.metrics import TARGET_SUCCESS
from rlher.jobs.progress_table import Row
from rlher.tuning.objective import BASELINE_NUMBER, RERUN_SEEDS
from rlher.tuning.scoring import format_steps, has_score, score_of
from rlher.tuning.search_space import Space, contains
from rlher.tuning.study_storage import wait_for_database

REASON = "reason"
"""User attribute of a trial: why it failed."""
STATES = {
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "queued",
}
COLUMNS = ("success", f"{TARGET_SUCCESS}% at", "return")
"""Headings of :func:`_cells`."""


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


def require_own_trials(study: Study, space: Space) -> None:
    """Raise UserError if a trial has parameters outside of the search space, or is complete without a score.

    The best trials are trained again with all their parameters. Another program may have written them, and a key such
    as ``env.modules`` would run any code.
    """
    for trial in study.get_trials(deepcopy=False):
        is_own = contains(space, {**trial.params, **trial.system_attrs.get("fixed_params", {})})
        if trial.state is TrialState.COMPLETE:
            is_own &= has_score(trial) and trial.params.keys() == space.keys()
        if not is_own:
            raise UserError(
                f"another program wrote trial {trial.number} of the study {study.study_name!r}: it has no score, or "
                "parameters outside of the search space; choose another --study-name."
            )


# ----------------------------------------------------------------------------------------- text


def trial_row(trial: FrozenTrial, shown: bool) -> Row:
    """Return the row of the table of progress."""
    cells, parameters = _cells(trial), format_parameters(trial)
    line = ""
    if trial.state is TrialState.FAIL:
        line = f"{trial_name(trial)} failed: {failure_reason(trial)}"
    elif trial.state.is_finished():
        values = "  ".join(f"{name} {value}" for name, value in zip(COLUMNS, cells, strict=True))
        line = f"{trial_name(trial)} {STATES[trial.state]}  {values}  {parameters}"
    return Row(trial_name(trial), STATES[trial.state], (*cells, parameters), line, shown)


def trial_name(trial: FrozenTrial) -> str:
    """Return ``"trial 4"``; for a re-run the candidate that is trained again."""
    candidate = _parameters(trial).get("candidate")
    if candidate is None:
        return f"trial {trial.number}"
    return "re-run of the baseline" if candidate == BASELINE_NUMBER else f"re-run of trial {candidate}"


def failure_reason(trial: FrozenTrial) -> str:
    """Return why a trial failed."""
    return str(trial.user_attrs.get(REASON, "its worker died"))  # another program may have stored anything


def format_parameters(trial: FrozenTrial) -> str:
    """Return a trial's parameters, each under the last part of its key; for a re-run its seed."""
    parameters = _parameters(trial)
    if "candidate" in parameters:
        return f"seed={RERUN_SEEDS + parameters['seed']}"
    parts = []
    for key, value in parameters.items():
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        parts.append(f"{key.rpartition('.')[2]}={text}")
    return " ".join(parts)


def _parameters(trial: FrozenTrial) -> dict[str, Any]:
    """Return a trial's parameters, which are queued at first, and stored one by one when the trial starts."""
    return {**trial.system_attrs.get("fixed_params", {}), **trial.params}


def _cells(trial: FrozenTrial) -> list[str]:
    """Return the values of :data:`COLUMNS`; "–" until the worker has stored the whole score."""
    if not has_score(trial):
        reported = list(trial.intermediate_values.values())
        return [f"{reported[-1]:.0%} now" if reported else "–", "–", "–"]
    score = score_of(trial)
    return [f"{score.success:.1%}", format_steps(score.steps, score.reached), f"{score.mean_reward:.2f}"]
