"""Re-runs: the baseline and the best trials of a search, the *candidates*, are trained again on fresh seeds.

Then the candidates are compared with the baseline, with confidence intervals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import optuna
from optuna.distributions import IntDistribution
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from rlher.config.tuning import OBJECTIVES, OptimizeConfig
from rlher.core import stats
from rlher.evaluation.metrics import TARGET_PERCENT
from rlher.tuning.scoring import Score, format_steps, mean_score, score_of, score_run
from rlher.tuning.search_space import SearchSpace, decode, format_value
from rlher.tuning.study_folder import RERUNS
from rlher.tuning.study_storage import BASELINE_ATTRIBUTE, open_study
from rlher.tuning.trial_runner import TrialRunner
from rlher.tuning.trials import completed_trials, counted_trials, rank_trials

RERUN_SEED_OFFSET = 10**6
"""Offset of the first re-run's seed, far above the seeds of a search, so that re-runs have seeds that no trial had."""
BASELINE_NUMBER = -1
"""Number of the baseline among the candidates of the re-runs. Other candidates have the number of their trial."""

RERUN_SPACE: SearchSpace = {"candidate": IntDistribution(BASELINE_NUMBER, 10**9), "seed": IntDistribution(0, 10**6)}
"""Parameters of a re-run."""

CONFIDENCE = 0.95
"""Confidence that the intervals of all candidates together are right."""

ParamsByCandidate = Mapping[int, Mapping[str, Any]]
"""Parameters of the candidates by their number."""


def candidate_name(number: int) -> str:
    """Return ``"baseline"`` or ``"trial 4"``."""
    return "baseline" if number == BASELINE_NUMBER else f"trial {number}"


def select_candidates(study: Study, space: SearchSpace, config: OptimizeConfig) -> ParamsByCandidate:
    """Return the parameters of the baseline and of the best trials, by number."""
    baseline = [trial.params for trial in counted_trials(study) if BASELINE_ATTRIBUTE in trial.user_attrs]
    best = [trial for trial in rank_trials(study, space) if trial.params not in baseline]
    return {BASELINE_NUMBER: {}, **{trial.number: trial.params for trial in best[: config.rerun_best]}}


def open_reruns(storage: BaseStorage, name: str, candidates: ParamsByCandidate, config: OptimizeConfig) -> Study:
    """Create or join the study of the re-runs, and queue the re-runs that are missing, failed or were pruned.

    Commands that call it at the same time queue the same re-runs; :class:`RerunTrialRunner` prunes all but the first.
    """
    study, _ = open_study(storage, f"{name}-rerun", {"reruns": True})
    queued = _queued_params(study)
    for seed in range(config.rerun_seeds):  # seed by seed, so that all candidates advance together
        for number in candidates:
            params = {"candidate": number, "seed": seed}
            if params not in queued.values():
                study.enqueue_trial(params)
    return study


def _queued_params(study: Study) -> dict[int, Any]:
    """Return the parameters of the re-runs that wait, run or are complete, by the number of the trial."""
    queued = [trial for trial in counted_trials(study) if trial.state not in (TrialState.FAIL, TrialState.PRUNED)]
    return {trial.number: trial.system_attrs.get("fixed_params") for trial in queued}  # params are empty while it waits


@dataclass(frozen=True)
class RerunTrialRunner(TrialRunner):
    """The re-runs: each trial trains a candidate on one fresh seed."""

    candidates: ParamsByCandidate

    def describe(self, trial: FrozenTrial) -> tuple[str, str]:
        """Return the candidate that a re-run trains again, and the seed of its run."""
        params = trial.params
        if trial.distributions != self.space:  # it waits, or another program wrote it
            return super().describe(trial)
        seed = self.config.seed + RERUN_SEED_OFFSET + params["seed"]
        return f"re-run of {candidate_name(params['candidate'])}", f"seed={seed}"

    def run_trial(self, trial: Trial) -> tuple[float, Score]:
        """Train a candidate, and keep its last model and run folder.

        :return: its last model's success rate in the final evaluation, and a score with it.
        :raises RunError: the run failed.
        :raises optuna.TrialPruned: the trial is obsolete, queued by an interrupted command, or repeats an earlier one.
        """
        number = trial.params["candidate"]
        queued = _queued_params(trial.study).items()
        is_repeated = any(earlier < trial.number and params == trial.params for earlier, params in queued)
        if number not in self.candidates or is_repeated:
            raise optuna.TrialPruned
        logs = self.folder / RERUNS / str(trial.number)
        seed_offset = RERUN_SEED_OFFSET + trial.params["seed"]
        result, rows = self.train(self.candidates[number], seed_offset, logs)
        success = float(result.final["success_rate"])
        return success, replace(score_run(rows, self.config.time_limit), success=success)


# ------------------------------------------------------------------------------- comparison with the baseline


class Gain(NamedTuple):
    """Difference to the baseline in what the study maximises, and the ends of its interval."""

    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Candidate:
    """The re-runs of a trial, or of the baseline.

    :param number: the trial's number; :data:`BASELINE_NUMBER` for the baseline.
    :param params: the trial's parameters; none for the baseline.
    :param scores: one a seed, with the success rate of the last model in the final evaluation.
    :param gain: zero for the baseline.
    """

    number: int
    params: Mapping[str, Any]
    scores: list[Score]
    gain: Gain

    @property
    def mean(self) -> Score:
        """Mean over the seeds."""
        return mean_score(self.scores)

    @property
    def is_better(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.gain.low > 0

    def to_json(self) -> dict[str, Any]:
        """Return the object of ``verdict.json``."""
        return {
            "number": self.number,
            "success": [score.success for score in self.scores],
            "auc": [score.auc for score in self.scores],
            "saved_seconds": [score.saved_seconds for score in self.scores],
            "steps": self.mean.steps,
            "share_at_target": self.mean.share_at_target,
            "gain": [bound if np.isfinite(bound) else None for bound in self.gain],  # JSON has no infinity
            "is_better": self.is_better,
            "params": {key: decode(value) for key, value in self.params.items()},
        }


def table_row(candidate: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells of a table, by column, for a candidate of ``verdict.json``."""
    number = candidate["number"]
    return {
        "candidate": candidate_name(number),
        "final success": f"{np.mean(candidate['success']):.1%}",
        "per seed": " / ".join(f"{100 * rate:.0f}" for rate in candidate["success"]),
        "area under curve": f"{np.mean(candidate['auc']):.3f}",
        f"steps to {TARGET_PERCENT}%": format_steps(candidate["steps"], candidate.get("share_at_target", 1.0)),
        "difference to baseline": "" if number == BASELINE_NUMBER else format_gain(candidate["gain"]),
        "parameters": " ".join(f"{key}={format_value(value)}" for key, value in candidate["params"].items()),
    }


def format_gain(gain: Sequence[float | None]) -> str:
    """Return a difference to the baseline with its interval, of which unknown ends are dashes."""
    mean, low, high = ("–" if bound is None or np.isinf(bound) else f"{bound:+.3f}" for bound in gain)
    return f"{mean} [{low}, {high}]"


def compare_candidates(reruns: Study, candidates: ParamsByCandidate, config: OptimizeConfig) -> list[Candidate]:
    """Return baseline and candidates, best first. Candidates with fewer than two completed seeds are left out.

    The intervals hold simultaneously: the error of 5 % is shared among them (Bonferroni).

    :return: empty if the baseline is left out, or every trial.
    """
    scores: dict[int, dict[int, Score]] = {number: {} for number in candidates}
    for trial in completed_trials(reruns, RERUN_SPACE):
        number, seed = trial.params["candidate"], trial.params["seed"]
        if number in candidates and seed < config.rerun_seeds:
            scores[number][seed] = score_of(trial)
    usable = {number: list(by_seed.values()) for number, by_seed in scores.items() if len(by_seed) >= 2}
    baseline = usable.pop(BASELINE_NUMBER, None)
    if baseline is None or (len(candidates) > 1 and not usable):
        return []
    confidence = 1 - (1 - CONFIDENCE) / max(len(usable), 1)
    compared = [Candidate(BASELINE_NUMBER, candidates[BASELINE_NUMBER], baseline, Gain(0.0, 0.0, 0.0))]
    for number, of_trial in usable.items():
        compared.append(Candidate(number, candidates[number], of_trial, _gain(of_trial, baseline, config, confidence)))

    def rank(candidate: Candidate) -> tuple[float, float, bool]:
        return candidate.gain.difference, -candidate.mean.steps, candidate.number == BASELINE_NUMBER

    return sorted(compared, key=rank, reverse=True)


def _gain(scores: list[Score], baseline: list[Score], config: OptimizeConfig, confidence: float) -> Gain:
    """Return the difference of a trial's re-runs to those of the baseline; greater is better."""
    attribute = OBJECTIVES[config.objective].attribute
    treated, control = ([getattr(score, attribute) for score in each] for each in (scores, baseline))
    episodes = config.eval.final_episodes if config.objective == "success" else None
    return Gain(*stats.difference_interval(treated, control, episodes, confidence))
