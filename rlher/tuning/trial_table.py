"""Rows of the progress table of a search or of its re-runs, a trial each."""

from optuna.trial import FrozenTrial, TrialState

from rlher.evaluation.metrics import TARGET_PERCENT
from rlher.jobs.progress_table import ProgressRow
from rlher.tuning.reruns import FIRST_RERUN_SEED, RERUN_SPACE, candidate_name
from rlher.tuning.scoring import format_steps, has_score, score_of
from rlher.tuning.trials import failure_reason, short_value, state_name

HEADINGS = ("trial", "state", "success", f"{TARGET_PERCENT}% at", "return", "parameters")


def trial_row(trial: FrozenTrial, in_table: bool) -> ProgressRow:
    """Return the row of the progress table. Its score is "–" until the trial is complete."""
    cells: tuple[str, ...] = ("–", "–", "–")
    if has_score(trial):
        score = score_of(trial)
        cells = (f"{score.success:.1%}", format_steps(score.steps, score.share_at_90), f"{score.mean_reward:.2f}")
    elif reported := list(trial.intermediate_values.values()):
        cells = (f"{reported[-1]:.0%} now", "–", "–")
    reason = failure_reason(trial) if trial.state is TrialState.FAIL else ""
    name, parameters = _name_and_parameters(trial)
    is_finished = trial.state.is_finished()
    cells = (*cells, parameters)
    share = 1.0 if is_finished else 0.0
    return ProgressRow(name, state_name(trial), cells, in_table, is_printed=is_finished, share=share, reason=reason)


def _name_and_parameters(trial: FrozenTrial) -> tuple[str, str]:
    """Return ``"trial 4"`` and its parameters, or the candidate that a re-run trains again and the seed."""
    params = trial.params
    if params.keys() >= RERUN_SPACE.keys():
        return f"re-run of {candidate_name(params['candidate'])}", f"seed={FIRST_RERUN_SEED + params['seed']}"
    shown = (f"{key.rpartition('.')[2]}={short_value(value)}" for key, value in params.items())
    return f"trial {trial.number}", " ".join(shown)
