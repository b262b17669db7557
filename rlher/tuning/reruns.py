"""Re-runs: train the *candidates*, which are the baseline and the best trials of a search, again on fresh seeds.

Then compare the candidates with the baseline, with confidence intervals.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from rlher.config.training import RunConfig
from rlher.config.tuning import OBJECTIVES
from rlher.core import stats
from rlher.evaluation.metrics import TARGET_PERCENT
from rlher.run.result import ShouldStop
from rlher.training.train_run import train_run
from rlher.tuning.scoring import Score, format_steps, mean_score, score_of
from rlher.tuning.search import Search
from rlher.tuning.search_space import decode, format_value
from rlher.tuning.study_folder import RERUNS_FOLDER
from rlher.tuning.study_storage import open_study
from rlher.tuning.trial_runner import TrialRunner
from rlher.tuning.trials import completed_trials, rank_trials

BASELINE = "baseline"
"""Name of the baseline among the candidates. The others are called ``trial <number>``."""

RERUN_SEED = "rerun_seed"
"""User attribute of a re-run: number of its seed, from 0."""

RERUN_SEED_OFFSET = 10**6
"""Offset of the first re-run's seed, far above the seeds of a search, so that re-runs have seeds that no trial had."""

ParamsByCandidate = Mapping[str, Mapping[str, Any]]
"""Parameters of the candidates by their name."""

Candidate = dict[str, Any]
"""The object of a candidate in ``verdict.json``, see :func:`candidate_json`."""


def select_candidates(study: Study, search: Search) -> ParamsByCandidate:
    """Return the parameters of the baseline and of the best trials, by name."""
    baseline = search.baseline_params
    best = [trial for trial in rank_trials(study, search.space) if trial.params != baseline]
    best = best[: search.config.rerun_best]
    return {BASELINE: baseline, **{f"trial {trial.number}": trial.params for trial in best}}


def queue_reruns(storage: BaseStorage, candidates: ParamsByCandidate, search: Search) -> Study:
    """Create or join the study of the re-runs, and queue the re-runs that are missing or failed.

    Prune queued re-runs of former candidates, and duplicates that another command queued at the same time.
    """
    study, _ = open_study(storage, f"{search.folder.name}-rerun", {"reruns": True})
    # Queue seed by seed, so that all candidates advance together.
    wanted = [(seed, dict(params)) for seed in range(search.config.rerun_seeds) for params in candidates.values()]
    queued = [rerun for _, rerun in _queued_reruns(study)]
    for seed, params in wanted:
        if (seed, params) not in queued:
            study.enqueue_trial(params, user_attrs={RERUN_SEED: seed})

    earlier = []
    for trial, rerun in _queued_reruns(study):
        if trial.state is TrialState.WAITING and (rerun in earlier or rerun not in wanted):
            with contextlib.suppress(UpdateFinishedTrialError):  # the other command was first
                storage.set_trial_state_values(trial._trial_id, TrialState.PRUNED)
        earlier.append(rerun)
    return study


def _queued_reruns(study: Study) -> list[tuple[FrozenTrial, tuple[Any, Any]]]:
    """Return the waiting, running and complete re-runs, each with its seed number and its parameters."""
    trials = study.get_trials(states=(TrialState.WAITING, TrialState.RUNNING, TrialState.COMPLETE))
    # Waiting trials have no `params` yet: Optuna sets them when a trial starts.
    return [(trial, (trial.user_attrs.get(RERUN_SEED), trial.system_attrs.get("fixed_params"))) for trial in trials]


class RerunRunner(TrialRunner):
    """Runs the re-runs. Each re-run trains one seed to its end, and keeps its models."""

    runs_folder = RERUNS_FOLDER

    def _seed_offsets(self, trial: Trial) -> Sequence[int]:
        """Return the number to add to the seed of the config for the trial's only run.

        :raises optuna.TrialPruned: Optuna made a new trial, because two commands asked for the last queued re-run.
        """
        if RERUN_SEED not in trial.user_attrs:
            raise optuna.TrialPruned
        return [RERUN_SEED_OFFSET + trial.user_attrs[RERUN_SEED]]

    def _train(self, config: RunConfig, should_stop: ShouldStop) -> Score:
        """Train a run to its end. The score has the success rate of the last model in the final evaluation."""
        _, result = train_run(config, self.search.command_line)
        return self._score(result)._replace(success=float(result.final["success_rate"]))


def compare_candidates(reruns: Study, candidates: ParamsByCandidate, search: Search) -> list[Candidate]:
    """Return baseline and candidates as the objects of ``verdict.json``, best first.

    Candidates with fewer than two completed seeds are left out. The intervals hold simultaneously, because they share
    the error of 5 % (Bonferroni).

    :return: empty if the baseline or all other candidates are left out.
    """
    config = search.config
    completed = completed_trials(reruns, search.space)
    usable: dict[str, list[Score]] = {}
    for name, params in candidates.items():
        of_candidate = [trial for trial in completed if trial.params == params]
        by_seed = {trial.user_attrs.get(RERUN_SEED): score_of(trial) for trial in of_candidate}
        scores = [by_seed[seed] for seed in range(config.rerun_seeds) if seed in by_seed]
        if len(scores) >= 2:
            usable[name] = scores

    baseline = usable.pop(BASELINE, None)
    if baseline is None or (len(candidates) > 1 and not usable):
        return []

    def values(scores: list[Score]) -> list[float]:
        return [getattr(score, config.objective) for score in scores]

    episodes = config.eval.final_episodes if config.objective == "success" else None
    compared = [candidate_json(BASELINE, {}, baseline, (0.0, 0.0, 0.0))]
    for name, scores in usable.items():
        confidence = 1 - 0.05 / len(usable)
        gain = stats.difference_interval(values(scores), values(baseline), episodes, confidence)
        compared.append(candidate_json(name, candidates[name], scores, gain))
    return sorted(compared, key=_rank, reverse=True)


def _rank(candidate: Candidate) -> tuple[float, float, bool]:
    """Return the key by which candidates are sorted."""
    return candidate["gain"][0], -candidate["steps"], candidate["name"] == BASELINE


def candidate_json(name: str, params: Mapping[str, Any], scores: list[Score], gain: Sequence[float]) -> Candidate:
    """Return a candidate's object of ``verdict.json``.

    :param params: the trial's parameters, empty for the baseline.
    :param scores: one score per seed, with the success rate of the last model in the final evaluation.
    :param gain: difference to the baseline in the study's objective, and the ends of the interval of this difference.
    """
    mean = mean_score(scores)
    return {
        "name": name,
        **{objective: [getattr(score, objective) for score in scores] for objective in OBJECTIVES},
        "steps": mean.steps,
        "share_at_target": mean.share_at_target,
        "gain": [bound if np.isfinite(bound) else None for bound in gain],  # JSON has no infinity
        "is_better": gain[1] > 0,
        "params": {key: decode(value) for key, value in params.items()},
    }


def table_row(candidate: Candidate) -> dict[str, str]:
    """Return the cells of a table, by column, for a candidate of ``verdict.json``."""
    return {
        "candidate": candidate["name"],
        "final success": f"{np.mean(candidate['success']):.1%}",
        "per seed": " / ".join(f"{100 * rate:.0f}" for rate in candidate["success"]),
        "area under curve": f"{np.mean(candidate['auc']):.3f}",
        f"steps to {TARGET_PERCENT}%": format_steps(candidate["steps"], candidate.get("share_at_target", 1.0)),
        "difference to baseline": "" if candidate["name"] == BASELINE else format_gain(candidate["gain"]),
        "parameters": " ".join(f"{key}={format_value(value)}" for key, value in candidate["params"].items()),
    }


def format_gain(gain: Sequence[float | None]) -> str:
    """Return a difference to the baseline with its interval. Unknown ends of the interval are dashes."""
    mean, low, high = ("–" if bound is None else f"{bound:+.3f}" for bound in gain)
    return f"{mean} [{low}, {high}]"
