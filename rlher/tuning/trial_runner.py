"""Runs the trials of a study: trains with the parameters, reports to the pruner, and scores the result."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.trial import Trial, TrialState

from rlher.config.training import DEFAULT_EVALUATIONS, CheckpointConfig, side_by_side_config
from rlher.config.tuning import OptimizeConfig
from rlher.core.errors import RunError, UserError
from rlher.evaluation.metrics import EvaluationRows
from rlher.run.result import RunResult, Status
from rlher.training import start
from rlher.training.evaluations import OnEvaluation, StopTraining
from rlher.tuning.scoring import Score, mean_score, n_last_evaluations, objective_value, saved_seconds, score_run
from rlher.tuning.search_space import SearchSpace, apply_params
from rlher.tuning.study_folder import RERUNS
from rlher.tuning.study_storage import BASELINE_ATTRIBUTE
from rlher.tuning.trials import RERUN_SEED, counted_trials

RERUN_SEED_OFFSET = 10**6
"""Offset of the first re-run's seed, far above the seeds of a search, so that re-runs have seeds that no trial had."""

STARTUP_TRIALS = 5
"""Trials that the median pruner never ends."""


def make_pruner(config: OptimizeConfig) -> BasePruner:
    """Return the pruner of ``pruner=``, which ends bad trials early."""
    evaluations = config.total_timesteps // config.eval.freq if config.eval.freq else DEFAULT_EVALUATIONS
    if config.pruner == "median":
        return MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=evaluations // 3)
    if config.pruner == "hyperband":
        low = max(evaluations // 4, 1)
        return HyperbandPruner(min_resource=low, max_resource=evaluations * config.n_seeds)
    return NopPruner()


@dataclass(frozen=True)
class TrialRunner:
    """Everything that the trials of a study need; it is pickled and sent to workers.

    :param config: its environment is checked, see :func:`rlher.training.preparation.prepare`.
    :param space: the parameters of a trial.
    :param folder: the study's folder, with the journal, unless there is a database, and the output of trials.
    :param command: command line of the search, for the run folders.
    :param is_rerun: whether the trials are re-runs, see :mod:`rlher.tuning.reruns`.
    """

    config: OptimizeConfig
    study_name: str
    space: SearchSpace
    folder: Path
    command: str
    is_rerun: bool = False

    def run_trial(self, trial: Trial) -> tuple[float, Score]:
        """Train with a trial's parameters, and return its value and its score.

        :raises optuna.TrialPruned: the trial has no value.
        :raises RunError: a run failed.
        :raises UserError: its parameters exclude each other, or are outside of the search space.
        """
        if trial.distributions != self.space:  # its parameters could name code
            raise UserError(f"trial {trial.number} is outside of the search space; choose another --study-name.")
        return self._rerun(trial) if self.is_rerun else self._search(trial)

    def _train(
        self, params: Mapping[str, Any], seed_offset: int, logs: Path, on_evaluation: OnEvaluation | None = None
    ) -> tuple[RunResult, EvaluationRows]:
        """Train the baseline with these parameters, and return the run's result and its evaluations.

        :param seed_offset: added to the seed of the config.
        :param logs: folder of the run.
        :param on_evaluation: called with the rows of all evaluations after each one; it may raise StopTraining. None
            for a re-run, which the pruner does not see; it plays the final evaluation and keeps its models.
        :raises RunError: the run failed.
        """
        config = apply_params(side_by_side_config(self.config), params)
        config = replace(config, seed=self.config.seed + seed_offset, logs=str(logs), progress=True, tensorboard=False)
        # An interrupted trial starts again from step 0, so it needs no checkpoints.
        config = replace(config, checkpoint=CheckpointConfig(freq=None))
        rows: EvaluationRows = []

        def keep_rows(rows_so_far: EvaluationRows) -> None:
            rows[:] = rows_so_far
            if on_evaluation:
                on_evaluation(rows)

        try:
            _, result = start.train(config, self.command, keep_rows, evaluate_at_end=on_evaluation is None)
        finally:
            if on_evaluation:  # the models of a hundred trials are gigabytes
                for model in logs.rglob("*.zip"):
                    model.unlink()
        if not rows:
            raise RunError("a callback ended the run before its first evaluation; lower eval.freq or leave it out")
        return result, rows

    def _rerun(self, trial: Trial) -> tuple[float, Score]:
        """Train on one fresh seed, and keep the last model and the run folder.

        :return: the last model's success rate in the final evaluation, and a score with it.
        """
        if RERUN_SEED not in trial.user_attrs:  # two commands asked for the last re-run, and one got a new trial
            raise optuna.TrialPruned
        logs = self.folder / RERUNS / str(trial.number)
        result, rows = self._train(trial.params, RERUN_SEED_OFFSET + trial.user_attrs[RERUN_SEED], logs)
        success = float(result.final["success_rate"])
        return success, replace(score_run(rows, self.config.time_limit), success=success)

    def _search(self, trial: Trial) -> tuple[float, Score]:
        """Train on several seeds; the score is the mean over them.

        :raises optuna.TrialPruned: the pruner ended the trial.
        """
        config = self.config
        evaluations = itertools.count()

        def report(rows: EvaluationRows) -> None:
            if self._is_decided(trial, next(evaluations), rows):
                raise StopTraining

        logs = self.folder / "trials" / str(trial.number)
        scores: list[Score] = []
        episodes = 0  # that the success rate is measured on
        first = _count_same_params(trial) * config.n_seeds
        for seed_offset in range(first, first + config.n_seeds):
            result, rows = self._train(trial.params, seed_offset, logs, report)
            if result.status is Status.STOPPED and config.objective != "seconds":
                raise optuna.TrialPruned
            scores.append(score_run(rows, config.time_limit))
            episodes += n_last_evaluations(len(rows)) * config.eval.episodes
        score = mean_score(scores)
        return objective_value(config.objective, score, config.total_timesteps, episodes), score

    def _is_decided(self, trial: Trial, step: int, rows: EvaluationRows) -> bool:
        """Report the last of a run's evaluations to the pruner, and return whether the run needs no more steps.

        With ``objective=seconds`` nothing is pruned: a run ends at the target, or when its time is up.

        :param step: number of evaluations of the trial before it.
        """
        if self.config.objective == "seconds":
            limit = self.config.time_limit
            return rows[-1]["wall_seconds"] >= limit or saved_seconds(rows, limit) > 0
        value = score_run(rows).auc if self.config.objective == "auc" else rows[-1]["success_rate"]
        trial.report(value, step)
        # The baseline is never pruned, because candidates are compared with it.
        return BASELINE_ATTRIBUTE not in trial.user_attrs and trial.should_prune()


def _count_same_params(trial: Trial) -> int:
    """Return how many earlier trials have the same parameters; this one then trains other seeds."""
    earlier = [other for other in counted_trials(trial.study) if other.number < trial.number]
    return sum(other.params == trial.params and other.state is not TrialState.FAIL for other in earlier)
