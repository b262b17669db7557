"""Run the trials of a study in workers: train with a trial's parameters, report to the pruner, record the score."""

import contextlib
import itertools
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from rlher.config.training import CheckpointConfig, RunConfig
from rlher.core.errors import RunError, UserError, describe_error
from rlher.evaluation.evaluations_csv import EvaluationRows
from rlher.run.result import RunResult, ShouldStop, Status
from rlher.training.train_run import train_run
from rlher.tuning.samplers_and_pruners import make_pruner
from rlher.tuning.scoring import Score, mean_score, n_last_evaluations, objective_value, saved_seconds, score_run
from rlher.tuning.search import Search
from rlher.tuning.study_storage import BASELINE_ATTRIBUTE, open_storage
from rlher.tuning.trials import FAILURE_REASON, counted_trials


@dataclass(frozen=True)
class TrialRunner:
    """Runs the trials of a study of a search. The runner is pickled and sent to workers."""

    search: Search
    study_name: str

    runs_folder: ClassVar = "trials"
    """Subfolder of the study's folder for the run folders."""

    def run_and_record(self, trial_id: int) -> None:
        """Run a trial that the command asked for, and record how the trial ended. Print the traceback if it raises."""
        trial = self._load_trial(trial_id)
        value = state = None
        try:
            value, score = self.run_trial(trial)
            attributes: dict[str, Any] = score._asdict()
        except optuna.TrialPruned:
            state, attributes = TrialState.PRUNED, {}
        except Exception as error:  # a failed trial does not end the study
            traceback.print_exc()
            state, attributes = TrialState.FAIL, {FAILURE_REASON: describe_error(error)}
        with contextlib.suppress(UpdateFinishedTrialError, ValueError):  # another command took the trial for lost
            for name, entry in attributes.items():
                trial.set_user_attr(name, entry)
            trial.study.tell(trial.number, value, state)

    def _load_trial(self, trial_id: int) -> Trial:
        config = self.search.config
        storage = open_storage(config.storage, self.search.folder, config.heartbeat)
        study = optuna.load_study(study_name=self.study_name, storage=storage, pruner=make_pruner(config))
        return Trial(study, trial_id)

    def run_trial(self, trial: Trial) -> tuple[float, Score]:
        """Train with a trial's parameters, and return its value and its score.

        :raises optuna.TrialPruned: the trial has no value.
        :raises RunError: a run failed.
        :raises UserError: the trial's parameters exclude each other, or are outside of the search space.
        """
        if trial.distributions != self.search.space:  # its parameters could name code
            raise UserError(f"trial {trial.number} is outside of the search space; choose another --study-name.")
        config = self.search.config
        # The numbers of reports go on over all seeds of the trial.
        should_stop = partial(self._report_to_pruner, trial, itertools.count())
        scores = [self._train(self._run_config(trial, offset), should_stop) for offset in self._seed_offsets(trial)]
        score = mean_score(scores)
        episodes = len(scores) * n_last_evaluations(config.n_evaluations) * config.eval.episodes
        return objective_value(config.objective, score, config.total_timesteps, episodes), score

    def _seed_offsets(self, trial: Trial) -> Sequence[int]:
        """Return, for each of the trial's runs, the number to add to the seed of the config.

        Trials with the same parameters train on different seeds.
        """
        earlier = [other for other in counted_trials(trial.study) if other.number < trial.number]
        repeated = sum(other.params == trial.params and other.state is not TrialState.FAIL for other in earlier)
        n_seeds = self.search.config.n_seeds
        return range(repeated * n_seeds, (repeated + 1) * n_seeds)

    def _train(self, config: RunConfig, should_stop: ShouldStop) -> Score:
        """Train a run of a trial, and return its score.

        :raises optuna.TrialPruned: the pruner ended the trial.
        :raises RunError: the run failed.
        """
        try:
            _, result = train_run(config, self.search.command_line, should_stop)
        finally:
            for model in Path(config.logs).rglob("*.zip"):  # the models of a hundred trials are gigabytes
                model.unlink()
        if result.status is Status.STOPPED and self.search.config.objective != "seconds":
            raise optuna.TrialPruned
        return self._score(result)

    def _run_config(self, trial: Trial, seed_offset: int) -> RunConfig:
        """Return the baseline's config with a trial's parameters, to train in a subfolder of the study's folder."""
        return replace(
            self.search.config_with(trial.params),
            seed=self.search.config.seed + seed_offset,
            logs=str(self.search.folder / self.runs_folder / str(trial.number)),
            progress=True,
            tensorboard=False,
            checkpoint=CheckpointConfig(freq=None),  # an interrupted trial starts again from step 0
        )

    def _score(self, result: RunResult) -> Score:
        """Return the score of a run.

        :raises RunError: a callback ended it before its first evaluation.
        """
        if not result.evaluations:
            raise RunError("a callback ended the run before its first evaluation; lower eval.freq or leave it out")
        return score_run(result.evaluations, self.search.config.time_limit)

    def _report_to_pruner(self, trial: Trial, report_numbers: Iterator[int], rows: EvaluationRows) -> bool:
        """Report a run's last evaluation to the pruner, and return whether the run may end early.

        ``objective=seconds`` needs no pruner: a run ends at the target, or when its time is up.
        """
        config = self.search.config
        if config.objective == "seconds":
            limit = config.time_limit
            return rows[-1]["wall_seconds"] >= limit or saved_seconds(rows, limit) > 0
        value = score_run(rows).auc if config.objective == "auc" else rows[-1]["success_rate"]
        trial.report(value, next(report_numbers))
        # The baseline is never pruned, because candidates are compared with it.
        return BASELINE_ATTRIBUTE not in trial.user_attrs and trial.should_prune()
