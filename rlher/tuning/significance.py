"""The verdict: the best trials and the recipe they started from, run again on fresh seeds and compared."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from rlher.config.tuning import OptimizeConfig
from rlher.core import stats
from rlher.tuning.objective import RECIPE
from rlher.tuning.scoring import Score, mean
from rlher.tuning.shared_study import BASELINE, counted

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Candidate:
    """A trial run again, beside the recipe.

    :param number: of its trial; :data:`RECIPE` for the recipe itself.
    :param success: success rate of the last model, a value a seed.
    :param auc: area under the success curve, a value a seed.
    :param steps: steps to 90 %, mean over the seeds.
    :param gain: difference to the recipe in what the study maximises, and the ends of its interval.
    """

    number: int
    success: list[float]
    auc: list[float]
    steps: float
    gain: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def is_better(self) -> bool:
        """The whole interval lies above zero."""
        return self.gain[1] > 0


def score_of(trial: FrozenTrial) -> Score:
    """Return the score a complete trial was given."""
    return Score(**{name: trial.user_attrs[name] for name in Score.__dataclass_fields__})


def complete(study: Study) -> list[FrozenTrial]:
    """List the study's complete trials."""
    return [trial for trial in counted(study) if trial.state is TrialState.COMPLETE]


def best_first(study: Study, objective: str) -> list[FrozenTrial]:
    """Sort what was tried: by area where that is what was maximised, else by success, ties by steps and return.

    Trials with the same parameters, which had different seeds, count as one: the first, with the mean of their scores.
    """
    same: dict[str, list[FrozenTrial]] = {}
    for trial in complete(study):
        same.setdefault(json.dumps(trial.params, sort_keys=True), []).append(trial)

    def rank(trials: list[FrozenTrial]) -> tuple[float, ...]:
        together = mean([score_of(trial) for trial in trials])
        return (together.auc, *together.rank) if objective == "auc" else together.rank

    return [trials[0] for trials in sorted(same.values(), key=rank, reverse=True)]


def candidates(study: Study, config: OptimizeConfig) -> dict[int, dict[str, Any]]:
    """Choose what is run again: the best trials, and the recipe."""
    recipe = [trial.params for trial in counted(study) if BASELINE in trial.user_attrs]
    better = [trial for trial in best_first(study, config.objective) if trial.params not in recipe]
    return {RECIPE: {}, **{trial.number: trial.params for trial in better[: config.rerun_best]}}


def plan(chosen: Mapping[int, Any], seeds: int) -> list[dict[str, int]]:
    """List the re-runs as parameters, seed by seed, so that all candidates are equally far at any time."""
    return [{"candidate": number, "seed": seed} for seed in range(seeds) for number in chosen]


def verdict(reruns: Study, chosen: Mapping[int, Any], config: OptimizeConfig) -> list[Candidate]:
    """Compare the candidates, best first; the recipe is among them. Those none of whose seeds ended are left out.

    The intervals hold together: each is Bonferroni's share wider than 95 %.
    """
    found = {number: _collect(reruns, number, config.rerun_seeds) for number in chosen}
    usable = {number: each for number, each in found.items() if each and len(each.success) >= 2}
    recipe = usable.get(RECIPE)
    if recipe is None:
        return []
    confidence = 1 - (1 - CONFIDENCE) / max(len(usable) - 1, 1)
    judged = [_against(each, recipe, config, confidence) for each in usable.values()]
    return sorted(judged, key=lambda each: (each.gain[0], -each.steps, each.number == RECIPE), reverse=True)


def _collect(reruns: Study, number: int, seeds: int) -> Candidate | None:
    runs = {
        trial.params["seed"]: trial
        for trial in complete(reruns)
        if trial.params["candidate"] == number and trial.params["seed"] < seeds
    }
    if not runs:
        return None
    scores = [score_of(trial) for trial in runs.values()]
    success = [float(trial.values[0]) for trial in runs.values()]
    return Candidate(number, success, [each.auc for each in scores], float(np.mean([each.steps for each in scores])))


def _against(candidate: Candidate, recipe: Candidate, config: OptimizeConfig, confidence: float) -> Candidate:
    if candidate.number == RECIPE:
        return candidate
    if config.objective == "auc":
        gain = stats.difference_interval(candidate.auc, recipe.auc, None, confidence)
    else:
        gain = stats.difference_interval(candidate.success, recipe.success, config.eval.final_episodes, confidence)
    return Candidate(candidate.number, candidate.success, candidate.auc, candidate.steps, gain)
