"""Progress of a study on stderr, and one line about each trial."""

from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from rlher.evaluation.metrics import TARGET_SUCCESS
from rlher.training.progress_table import ProgressTable, Row
from rlher.tuning.objective import BASELINE_NUMBER, RERUN_SEEDS
from rlher.tuning.scoring import format_steps, has_score, score_of
from rlher.tuning.trials import REASON, counted_trials

COLUMNS = ("success", f"{TARGET_SUCCESS}% at", "return")
MAX_BEST = 5
STATES = {
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "queued",
}


def study_progress(
    study: Study, title: str, total: int, enabled: bool, runs_per_trial: int = 1, runs_after: int = 0
) -> ProgressTable:
    """Return a table of the best and the running trials; without a terminal a line for each finished trial.

    :param total: number of trials at which the study is complete.
    :param runs_per_trial: training runs of a trial.
    :param runs_after: training runs that follow the study, for the estimate of the time left.
    """

    def rows() -> list[Row]:
        trials = counted_trials(study)
        completed = [trial for trial in trials if trial.state is TrialState.COMPLETE]
        best = sorted(completed, key=lambda trial: trial.values[0], reverse=True)[:MAX_BEST]
        shown = [*best, *(trial for trial in trials if trial.state is TrialState.RUNNING)]
        numbers = {trial.number for trial in shown}
        others = [trial for trial in trials if trial.number not in numbers]
        return [_row(trial, trial.number in numbers) for trial in [*shown, *others]]

    def work() -> tuple[float, float]:
        done = sum(trial.state.is_finished() for trial in counted_trials(study))
        return done, max(total, done) + runs_after / runs_per_trial

    return ProgressTable(title, ("trial", "state", *COLUMNS, "parameters"), total, rows, work, enabled)


def _row(trial: FrozenTrial, shown: bool) -> Row:
    line = describe(trial) if trial.state.is_finished() else ""
    return Row(trial_name(trial), STATES[trial.state], (*_cells(trial), format_parameters(trial)), line, shown)


def describe(trial: FrozenTrial) -> str:
    """Return one line about a finished trial."""
    if trial.state is TrialState.FAIL:
        return f"{trial_name(trial)} failed: {failure_reason(trial)}"
    values = "  ".join(f"{name} {value}" for name, value in zip(COLUMNS, _cells(trial), strict=True))
    return f"{trial_name(trial)} {STATES[trial.state]}  {values}  {format_parameters(trial)}"


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
