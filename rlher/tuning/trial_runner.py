"""Runs the trials of a study: trains with the parameters, reports to the pruner, and scores the result."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from rlher.config.training import CheckpointConfig, side_by_side_config
from rlher.config.tuning import OptimizeConfig
from rlher.core.errors import RunError, UserError
from rlher.evaluation.metrics import EvaluationRows
from rlher.run.result import RunResult, Status
from rlher.training import start
from rlher.training.evaluations import StopTraining
from rlher.tuning.scoring import Score, mean_score, n_last_evaluations, objective_value, saved_seconds, score_run
from rlher.tuning.search_space import SearchSpace, apply_params, contains, format_value
from rlher.tuning.study_storage import BASELINE_ATTRIBUTE
from rlher.tuning.trials import counted_trials


@dataclass(frozen=True)
class TrialRunner(ABC):
    """Everything that the trials of a study need; it is pickled and sent to workers.

    :param config: its environment is checked, see :func:`rlher.training.preparation.prepare`.
    :param space: the parameters of a trial.
    :param folder: the study's folder, with the journal, unless there is a database, and the output of trials.
    :param command: command line of the search, for the run folders.
    """

    config: OptimizeConfig
    study_name: str
    space: SearchSpace
    folder: Path
    command: str

    @abstractmethod
    def run_trial(self, trial: Trial) -> tuple[float, Score]:
        """Train with a trial's parameters, and return its value and its score.

        :raises optuna.TrialPruned: the trial has no value.
        :raises RunError: a run failed.
        """

    def describe(self, trial: FrozenTrial) -> tuple[str, str]:
        """Return a trial's name and its parameters for the progress table: ``"trial 4"``, ``"gamma=0.95 tau=0.01"``."""
        shown = (f"{key.rpartition('.')[2]}={format_value(value)}" for key, value in trial.params.items())
        return f"trial {trial.number}", " ".join(shown)

    def train(
        self, params: Mapping[str, Any], seed_offset: int, logs: Path, reporter: "PrunerReporter | None"
    ) -> tuple[RunResult, EvaluationRows]:
        """Train the baseline with these parameters, and return the run's result and its evaluations.

        :param seed_offset: added to the seed of the config.
        :param logs: folder of the run.
        :param reporter: None for a re-run, which the pruner does not see; it plays the final evaluation and keeps its
            models.
        :raises optuna.TrialPruned: the reporter stopped the run.
        :raises RunError: the run failed.
        """
        config = apply_params(side_by_side_config(self.config), params)
        config = replace(config, seed=self.config.seed + seed_offset, logs=str(logs), progress=True, tensorboard=False)
        # An interrupted trial starts again from step 0, so it needs no checkpoints.
        config = replace(config, checkpoint=CheckpointConfig(freq=None))
        rows: EvaluationRows = []

        def on_evaluation(rows_so_far: EvaluationRows) -> None:
            rows[:] = rows_so_far
            if reporter:
                reporter.report(rows)

        try:
            _, result = start.train(config, self.command, on_evaluation, evaluate_at_end=reporter is None)
        finally:
            if reporter:  # the models of a hundred trials are gigabytes
                for model in logs.rglob("*.zip"):
                    model.unlink()
        if result.status is Status.STOPPED and not (reporter and reporter.is_done):
            raise optuna.TrialPruned
        if not rows:
            raise RunError("a callback ended the run before its first evaluation; lower eval.freq or leave it out")
        return result, rows


class SearchTrialRunner(TrialRunner):
    """A search: each trial trains several seeds."""

    def run_trial(self, trial: Trial) -> tuple[float, Score]:
        """Train a trial's seeds, and return its value and its score, the mean over the seeds.

        :raises optuna.TrialPruned: the pruner ended the trial.
        :raises RunError: a run failed.
        :raises UserError: its parameters exclude each other, or are outside of the search space.
        """
        config = self.config
        params = trial.params
        if not contains(self.space, params):  # they could name code
            raise UserError(f"trial {trial.number} is outside of the search space; choose another --study-name.")
        reporter = PrunerReporter(trial, config)
        logs = self.folder / "trials" / str(trial.number)
        scores: list[Score] = []
        episodes = 0  # that the success rate is measured on
        first = _count_same_params(trial) * config.n_seeds
        for seed_offset in range(first, first + config.n_seeds):
            _, rows = self.train(params, seed_offset, logs, reporter)
            scores.append(score_run(rows, config.time_limit))
            episodes += n_last_evaluations(len(rows)) * config.eval.episodes
        score = mean_score(scores)
        return objective_value(config.objective, score, config.total_timesteps, episodes), score


class PrunerReporter:
    """Reports the evaluations of a search's trial to the pruner, and stops runs that need no more steps."""

    def __init__(self, trial: Trial, config: OptimizeConfig) -> None:
        self.is_done = False
        """Whether the current run needs no more steps: it reached the target of ``seconds``, or its time is up."""
        self._trial = trial
        self._config = config
        self._step = -1

    def report(self, rows: EvaluationRows) -> None:
        """Report the last of the current run's evaluations.

        :raises StopTraining: the pruner ended the trial, or the run is done.
        """
        self._step += 1
        limit = self._config.time_limit
        is_timed = self._config.objective == "seconds"
        self.is_done = is_timed and (rows[-1]["wall_seconds"] >= limit or saved_seconds(rows, limit) > 0)
        if self.is_done or (not is_timed and self._is_pruned(rows)):
            raise StopTraining

    def _is_pruned(self, rows: EvaluationRows) -> bool:
        """Report the last evaluation to the pruner, and return whether it ends the trial."""
        value = score_run(rows).auc if self._config.objective == "auc" else rows[-1]["success_rate"]
        self._trial.report(value, self._step)
        # The baseline is never pruned, because candidates are compared with it.
        return BASELINE_ATTRIBUTE not in self._trial.user_attrs and self._trial.should_prune()


def _count_same_params(trial: Trial) -> int:
    """Return how many earlier trials have the same parameters; this one then trains other seeds."""
    earlier = [other for other in counted_trials(trial.study) if other.number < trial.number]
    return sum(other.params == trial.params and other.state is not TrialState.FAIL for other in earlier)
