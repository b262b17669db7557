"""What one trial does: train its seeds with the real trainer, report to the pruner, keep what came of it."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import Trial, TrialState

from rlher.config.training import CheckpointConfig, TrainConfig
from rlher.config.tuning import OptimizeConfig
from rlher.runs.run_folder import MODELS, Run
from rlher.training.callbacks.evaluation import Stopped
from rlher.training.trainer import fit
from rlher.tuning.scoring import Row, Score, last_of, mean, score, value
from rlher.tuning.search_space import Space, merged
from rlher.tuning.shared_study import BASELINE

FRESH_SEEDS = 1000  # this far above the seeds of the search
RECIPE = -1  # number of the candidate that is the recipe as it was


class RunFailed(Exception):
    """A training run ended early, and why: the environment broke down, or training diverged."""


def recipe_of(config: OptimizeConfig) -> TrainConfig:
    """Return the training run that the search starts from."""
    return TrainConfig(**{item.name: getattr(config, item.name) for item in fields(TrainConfig)})


@dataclass(frozen=True)
class Search:
    """The objective of the search: the score of a trial's runs, averaged over their seeds.

    :param folder: where the run folders of the trials go.
    """

    config: OptimizeConfig
    space: Space
    folder: Path

    def __call__(self, trial: Trial) -> float | tuple[float, float]:
        """Run a trial and return its value, or values.

        :raises optuna.TrialPruned: it was not worth finishing.
        :raises RunFailed: one of its runs failed.
        :raises UserError: its parameters do not go together.
        """
        params = {name: suggest(trial, name, distribution) for name, distribution in self.space.items()}
        watch = Watch(trial, self.config.objective)
        scores: list[Score] = []
        started = time.perf_counter()
        first = _repeats(trial) * self.config.n_seeds
        for seed in range(first, first + self.config.n_seeds):
            run, _ = _fit(self.config, params, seed, self.folder / str(trial.number), watch, final=False)
            for name in MODELS:  # a hundred trials' models are gigabytes; those of the re-run are kept
                run.model(name).unlink(missing_ok=True)
            scores.append(score(watch.rows))
        seconds = time.perf_counter() - started - watch.seconds
        _keep(trial, mean(scores), seconds)
        episodes = len(scores) * last_of(len(watch.rows)) * self.config.eval.episodes
        return value(self.config.objective, mean(scores), self.config.total_timesteps, episodes)


@dataclass(frozen=True)
class Rerun:
    """The objective of the re-run: one fresh seed of one candidate, its last model and run folder kept.

    :param candidates: parameters by number of their trial, and by :data:`RECIPE`.
    :param folder: where the run folders go.
    """

    config: OptimizeConfig
    candidates: Mapping[int, Mapping[str, Any]]
    folder: Path

    def __call__(self, trial: Trial) -> float:
        """Train a candidate; return the success rate of its last model, on starts no model was chosen by.

        :raises RunFailed: the run failed.
        """
        candidate = trial.suggest_int("candidate", RECIPE, max(self.candidates))
        seed = trial.suggest_int("seed", 0, 10**6)
        watch = Watch(trial, None)
        started = time.perf_counter()
        folder = self.folder / str(trial.number)
        run, result = _fit(self.config, self.candidates[candidate], FRESH_SEEDS + seed, folder, watch, final=True)
        _keep(trial, score(watch.rows), time.perf_counter() - started)
        trial.set_user_attr("run", str(run.folder))
        trial.set_user_attr("episodes", result["episodes"])
        return float(result["success_rate"])


class Watch:
    """Remember the evaluations of a trial's runs, and end a run that the pruner gives no chance.

    :param trial: to report to.
    :param objective: what a report is of; None: report nothing.
    """

    def __init__(self, trial: Trial, objective: str | None) -> None:
        self.rows: list[Row] = []
        """Of the run that is under way, or was last."""
        self.seconds = 0.0
        """Spent on reports, which are the tuner's and not training's."""
        self._trial, self._objective, self._step = trial, objective, 0
        # The gain is measured over the recipe, so its trial is never cut short; and Optuna prunes one objective only.
        self._prunes = objective in ("success", "auc") and BASELINE not in trial.user_attrs

    def __call__(self, rows: list[Row]) -> None:
        """Take in a run's rows, the newest last.

        :raises Stopped: the pruner says so.
        """
        self.rows = list(rows)
        if self._objective not in ("success", "auc"):
            return
        started = time.perf_counter()
        self._trial.report(rows[-1]["success_rate"] if self._objective == "success" else score(rows).auc, self._step)
        self._step += 1
        hopeless = self._prunes and self._trial.should_prune()
        self.seconds += time.perf_counter() - started
        if hopeless:
            raise Stopped


def suggest(trial: Trial, name: str, distribution: BaseDistribution) -> Any:
    """Ask for a parameter's value."""
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    ask = trial.suggest_int if isinstance(distribution, IntDistribution) else trial.suggest_float
    return ask(name, distribution.low, distribution.high, log=distribution.log)  # type: ignore[attr-defined]


def _repeats(trial: Trial) -> int:
    """Count the trials before this one that have its parameters: on their seeds there is nothing left to learn."""
    before = trial.study.get_trials(deepcopy=False)[: trial.number]
    return sum(each.params == trial.params and each.state is not TrialState.FAIL for each in before)


def _fit(
    config: OptimizeConfig, params: Mapping[str, Any], seed: int, logs: Path, watch: Watch, final: bool
) -> tuple[Run, dict[str, Any]]:
    """Train the recipe with these parameters and see to it that the run finished."""
    # A trial that is cut off is run again from the start, so it writes no checkpoints.
    quiet: dict[str, Any] = {"progress": False, "tensorboard": False, "checkpoint": CheckpointConfig(every=None)}
    quiet["threads"] = config.threads or 1
    run, result = fit(
        replace(merged(recipe_of(config), params), seed=config.seed + seed, logs=str(logs), **quiet), watch, final
    )
    if result["status"] == "stopped":
        raise optuna.TrialPruned
    if result["status"] == "interrupted":
        raise KeyboardInterrupt
    if result["status"] != "finished":
        raise RunFailed(f"{result['error']} ({run.folder})")
    return run, result


def _keep(trial: Trial, result: Score, seconds: float) -> None:
    for name, each in (asdict(result) | {"seconds": round(seconds, 3)}).items():
        trial.set_user_attr(name, each)
