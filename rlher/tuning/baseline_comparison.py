"""Comparison of the best trials with the baseline: all are trained again on fresh seeds, with confidence intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from optuna.study import Study

from rlher.config.tuning import OBJECTIVES, OptimizeConfig
from rlher.core import stats
from rlher.evaluation.metrics import TARGET_PERCENT
from rlher.tuning.reruns import BASELINE_NUMBER, RERUN_SPACE, ParamsByCandidate, candidate_name
from rlher.tuning.scoring import Score, format_steps, mean_score, score_of
from rlher.tuning.search_space import decode, format_value
from rlher.tuning.trials import completed_trials

CONFIDENCE = 0.95

Gain = tuple[float, float, float]
"""Difference to the baseline in what the study maximises, and the ends of its interval."""


@dataclass(frozen=True)
class Candidate:
    """The re-runs of a trial, or of the baseline.

    :param number: the trial's number; :data:`BASELINE_NUMBER` for the baseline.
    :param params: the trial's parameters; none for the baseline.
    :param scores: one a seed, with the success rate of the last model in the final evaluation.
    """

    number: int
    params: Mapping[str, Any]
    scores: list[Score]
    gain: Gain = (0.0, 0.0, 0.0)

    @property
    def mean(self) -> Score:
        """Mean over the seeds."""
        return mean_score(self.scores)

    @property
    def is_better(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.gain[1] > 0

    def to_json(self) -> dict[str, Any]:
        """Return the object of ``verdict.json``."""
        mean = self.mean
        return {
            "number": self.number,
            "success": [score.success for score in self.scores],
            "auc": [score.auc for score in self.scores],
            "saved_seconds": [score.saved_seconds for score in self.scores],
            "steps": mean.steps,
            "share_at_target": mean.share_at_target,
            "gain": self.gain,
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


def format_gain(gain: Sequence[float]) -> str:
    """Return a difference to the baseline with its interval."""
    mean, low, high = gain
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def compare_candidates(reruns: Study, candidates: ParamsByCandidate, config: OptimizeConfig) -> list[Candidate]:
    """Return baseline and candidates, best first. Candidates with fewer than two completed seeds are left out.

    The intervals hold simultaneously: the error of 5 % is shared among them (Bonferroni).

    :return: empty if the baseline is left out, or every trial.
    """
    loaded = [_load_candidate(reruns, number, params, config.rerun_seeds) for number, params in candidates.items()]
    usable = {candidate.number: candidate for candidate in loaded if candidate}
    baseline = usable.pop(BASELINE_NUMBER, None)
    if baseline is None or (len(candidates) > 1 and not usable):
        return []
    confidence = 1 - (1 - CONFIDENCE) / max(len(usable), 1)
    trials = [replace(trial, gain=_gain(trial, baseline, config, confidence)) for trial in usable.values()]

    def rank(candidate: Candidate) -> tuple[float, float, bool]:
        return candidate.gain[0], -candidate.mean.steps, candidate is baseline

    return sorted([baseline, *trials], key=rank, reverse=True)


def _load_candidate(reruns: Study, number: int, params: Mapping[str, Any], n_seeds: int) -> Candidate | None:
    """Return a candidate's completed re-runs; None if there are fewer than two."""
    runs = {
        trial.params["seed"]: trial
        for trial in completed_trials(reruns, RERUN_SPACE)
        if trial.params["candidate"] == number and trial.params["seed"] < n_seeds
    }
    scores = [score_of(trial) for trial in runs.values()]
    return Candidate(number, params, scores) if len(scores) >= 2 else None


def _gain(candidate: Candidate, baseline: Candidate, config: OptimizeConfig, confidence: float) -> Gain:
    """Return a candidate's difference to the baseline; greater is better."""
    attribute = OBJECTIVES[config.objective].attribute
    treated, control = ([getattr(score, attribute) for score in each.scores] for each in (candidate, baseline))
    episodes = config.eval.final_episodes if config.objective == "success" else None
    return stats.difference_interval(treated, control, episodes, confidence)
