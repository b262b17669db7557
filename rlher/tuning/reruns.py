"""Re-runs: the baseline and the best trials of a search, the *candidates*, are trained again on fresh seeds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import optuna
from optuna.distributions import IntDistribution
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from rlher.config.tuning import OptimizeConfig
from rlher.tuning.scoring import Score, score_run
from rlher.tuning.search_space import SearchSpace, contains
from rlher.tuning.study_folder import RERUNS
from rlher.tuning.study_storage import BASELINE_ATTRIBUTE, open_study
from rlher.tuning.trial_runner import TrialRunner
from rlher.tuning.trials import counted_trials, rank_trials

FIRST_RERUN_SEED = 10**6
"""First seed of the re-runs. A search reaches it only after a million runs with equal parameters."""
BASELINE_NUMBER = -1
"""Number of the baseline among the candidates of the re-runs. Other candidates have the number of their trial."""

RERUN_SPACE: SearchSpace = {"candidate": IntDistribution(BASELINE_NUMBER, 10**9), "seed": IntDistribution(0, 10**6)}
"""Parameters of a re-run."""

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
        """Return the candidate that a re-run trains again, and the seed."""
        params = trial.params
        if not contains(self.space, params):  # it waits, or another program wrote it
            return super().describe(trial)
        return f"re-run of {candidate_name(params['candidate'])}", f"seed={FIRST_RERUN_SEED + params['seed']}"

    def run_trial(self, trial: Trial) -> tuple[float, Score]:
        """Train a candidate, and keep its last model and run folder.

        :return: its last model's success rate in the final evaluation, and a score with it.
        :raises RunFailed: the run failed.
        :raises optuna.TrialPruned: the candidate was queued by an interrupted command, and is no longer one; or an
            earlier trial trains it on this seed.
        """
        number = trial.params["candidate"]
        seed = FIRST_RERUN_SEED + trial.params["seed"]
        queued = _queued_params(trial.study).items()
        is_repeated = any(earlier < trial.number and params == trial.params for earlier, params in queued)
        if number not in self.candidates or is_repeated:
            raise optuna.TrialPruned
        logs = self.folder / RERUNS / str(trial.number)
        result, rows = self.train(self.candidates[number], seed, logs, reporter=None)
        success = float(result.final["success_rate"])
        return success, replace(score_run(rows, self.config.time_limit), success=success)
