"""Comparison of the best trials with the baseline: all are trained again on fresh seeds, with confidence intervals."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial

from rlher.config.tuning import OptimizeConfig
from rlher.core import stats
from rlher.tuning.objective import BASELINE_NUMBER
from rlher.tuning.scoring import mean_score, score_of
from rlher.tuning.study_storage import BASELINE
from rlher.tuning.trials import completed_trials, counted_trials

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Candidate:
    """The re-runs of a trial, or of the baseline.

    :param number: the trial's number; :data:`BASELINE_NUMBER` for the baseline.
    :param success: success rate of the last model, one entry a seed.
    :param auc: area under the success curve, one entry a seed.
    :param seconds: seconds to 90 %, one entry a seed, see :func:`~rlher.tuning.scoring.seconds_to_target`.
    :param steps: steps to 90 %, mean over the seeds.
    :param reached: share of the seeds that reached 90 %.
    :param gain: difference to the baseline in what the study maximises, and the ends of its interval.
    """

    number: int
    success: list[float]
    auc: list[float]
    seconds: list[float]
    steps: float
    reached: float
    gain: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def is_better(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.gain[1] > 0


def rank_trials(study: Study, objective: str) -> list[FrozenTrial]:
    """Return the completed trials, best first: by success, steps and return, after area or seconds if they are tuned.

    Trials with the same parameters, which had different seeds, are one entry: the first, ranked by their mean score.
    """
    groups: dict[str, list[FrozenTrial]] = {}
    for trial in completed_trials(study):
        groups.setdefault(json.dumps(trial.params, sort_keys=True), []).append(trial)

    def rank(trials: list[FrozenTrial]) -> tuple[float, ...]:
        score = mean_score([score_of(trial) for trial in trials])
        first = {"auc": (score.auc,), "seconds": (-score.target_seconds,)}.get(objective, ())
        return (*first, *score.rank)

    return [trials[0] for trials in sorted(groups.values(), key=rank, reverse=True)]


def select_candidates(study: Study, config: OptimizeConfig) -> dict[int, dict[str, Any]]:
    """Return the parameters of the baseline and of the best trials, by number."""
    baseline = [trial.params for trial in counted_trials(study) if BASELINE in trial.user_attrs]
    best = [trial for trial in rank_trials(study, config.objective) if trial.params not in baseline]
    return {BASELINE_NUMBER: {}, **{trial.number: trial.params for trial in best[: config.rerun_best]}}


def rerun_parameters(candidates: Mapping[int, Any], n_seeds: int) -> list[dict[str, int]]:
    """Return the parameters of the re-runs, seed by seed, so that all candidates advance together."""
    return [{"candidate": number, "seed": seed} for seed in range(n_seeds) for number in candidates]


def compare_candidates(reruns: Study, candidates: Mapping[int, Any], config: OptimizeConfig) -> list[Candidate]:
    """Return baseline and candidates, best first. Candidates with fewer than two completed seeds are left out.

    The intervals hold simultaneously: the error of 5 % is shared among them (Bonferroni).

    :return: empty if the baseline has no interval.
    """
    loaded = [_load_candidate(reruns, number, config.rerun_seeds) for number in candidates]
    usable = {candidate.number: candidate for candidate in loaded if candidate}
    if BASELINE_NUMBER not in usable:
        return []
    confidence = 1 - (1 - CONFIDENCE) / max(len(usable) - 1, 1)
    compared = [_compare(each, usable[BASELINE_NUMBER], config, confidence) for each in usable.values()]
    return sorted(compared, key=lambda each: (each.gain[0], -each.steps, each.number == BASELINE_NUMBER), reverse=True)


def _load_candidate(reruns: Study, number: int, n_seeds: int) -> Candidate | None:
    """Return a candidate's completed re-runs; None if there are fewer than two."""
    runs = {
        trial.params["seed"]: trial
        for trial in completed_trials(reruns)
        if trial.params["candidate"] == number and trial.params["seed"] < n_seeds
    }
    if len(runs) < 2:
        return None
    scores = [score_of(trial) for trial in runs.values()]
    mean = mean_score(scores)
    success = [float(trial.values[0]) for trial in runs.values()]
    auc, seconds = [score.auc for score in scores], [score.target_seconds for score in scores]
    return Candidate(number, success, auc, seconds, mean.steps, mean.reached)


def _compare(candidate: Candidate, baseline: Candidate, config: OptimizeConfig, confidence: float) -> Candidate:
    """Return the candidate with its difference to the baseline."""
    if candidate is baseline:
        return candidate
    if config.objective == "auc":
        gain = stats.difference_interval(candidate.auc, baseline.auc, None, confidence)
    elif config.objective == "seconds":  # the seconds that the candidate saves
        gain = stats.difference_interval(baseline.seconds, candidate.seconds, None, confidence)
    else:
        gain = stats.difference_interval(candidate.success, baseline.success, config.eval.final_episodes, confidence)
    return replace(candidate, gain=gain)
