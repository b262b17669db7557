"""A worker: runs trial after trial of a study until its total is reached, on any machine that reaches the storage."""

import multiprocessing
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, CmaEsSampler, RandomSampler, TPESampler
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.study import Study
from optuna.trial import Trial, TrialState

from rlher.config.tuning import OptimizeConfig
from rlher.tuning.study import SURPLUS, WORKER, count_unstarted, is_surplus, requeue
from rlher.tuning.study_storage import open_storage_when_connected
from rlher.tuning.worker_id import worker_id

Objective = Callable[[Trial], float | Sequence[float]]
REASON = "reason"
"""User attribute of a failed trial."""
DEFAULT_EVALUATIONS = 20  # evaluations of a run if eval.freq is null
STARTUP_TRIALS = 5


class SurplusTrial(Exception):
    """Another worker started the study's last trial at the same time."""


@dataclass(frozen=True)
class WorkerSpec:
    """Everything a worker needs; it is pickled and sent to the worker's process.

    :param total: number of trials at which the study is complete.
    :param folder: the study's folder, with the journal, unless there is a database, and the workers' logs.
    :param entropy: seed of the sampler, different for each worker.
    """

    config: OptimizeConfig
    study_name: str
    total: int
    objective: Objective
    folder: Path
    entropy: tuple[int, ...]


def run_worker(spec: WorkerSpec) -> None:
    """Run trials until every trial of the total is started."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = load_study(spec)
    while count_unstarted(study, spec.total) and not _is_orphan():
        _run_trial(study, spec)


def load_study(spec: WorkerSpec) -> Study:
    """Open the study with a sampler and a pruner for this worker."""
    config = spec.config
    seed = int(np.random.SeedSequence(spec.entropy).generate_state(1)[0])
    return optuna.load_study(
        storage=open_storage_when_connected(config.storage, spec.folder, config.heartbeat, requeue),
        study_name=spec.study_name,
        sampler=make_sampler(config.sampler, seed),
        pruner=make_pruner(config),
    )


def make_sampler(name: str, seed: int) -> BaseSampler:
    """Return the sampler that proposes parameters."""
    if name == "random":
        return RandomSampler(seed=seed)
    if name == "cmaes":  # CMA-ES proposes numbers only; choices are drawn at random
        return CmaEsSampler(seed=seed, warn_independent_sampling=False)
    return TPESampler(seed=seed, multivariate=True, constant_liar=True)


def make_pruner(config: OptimizeConfig) -> BasePruner:
    """Return the pruner that ends trials early."""
    evaluations = config.total_timesteps // config.eval.freq if config.eval.freq else DEFAULT_EVALUATIONS
    if config.pruner == "median":
        return MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=evaluations // 3)
    if config.pruner == "hyperband":
        low = max(evaluations // 4, 1)
        return HyperbandPruner(min_resource=low, max_resource=max(evaluations * config.n_seeds, low))
    return NopPruner()


def _run_trial(study: Study, spec: WorkerSpec) -> None:
    """Run one trial; on Ctrl-C or SIGTERM, queue it again."""
    started: list[Trial] = []

    def objective(trial: Trial) -> float | Sequence[float]:
        started.append(trial)
        return _evaluate(study, trial, spec)

    try:
        study.optimize(objective, n_trials=1, catch=(Exception,))
    except KeyboardInterrupt:
        for trial in started:
            frozen = study.get_trials(deepcopy=True)[trial.number]
            if frozen.state is TrialState.FAIL:
                requeue(study, frozen, max_retry=None)
        raise
    except (UpdateFinishedTrialError, ValueError):
        # Raised if another process considered this worker dead, for example after a suspension, and failed the trial.
        if not started or not study.get_trials(deepcopy=False)[started[0].number].state.is_finished():
            raise


def _evaluate(study: Study, trial: Trial, spec: WorkerSpec) -> float | Sequence[float]:
    """Return the objective of a trial; if it raises, log the traceback and store the reason."""
    _record_first_heartbeat(study, trial)
    trial.set_user_attr(WORKER, worker_id())
    if is_surplus(study, trial.number, spec.total):
        trial.set_user_attr(SURPLUS, True)
        raise SurplusTrial
    try:
        return spec.objective(trial)
    except (optuna.TrialPruned, UpdateFinishedTrialError):
        raise
    except Exception as error:  # a failed trial does not end the study
        traceback.print_exc()
        trial.set_user_attr(REASON, f"{type(error).__name__}: {error}")
        raise


def _record_first_heartbeat(study: Study, trial: Trial) -> None:
    """Record a heartbeat before the trial has the worker's id.

    Optuna's first heartbeat comes from a thread. A worker that dies before that thread runs would leave a trial with an
    id but without a heartbeat, which is never found to be stale.
    """
    if isinstance(study._storage, BaseHeartbeat):
        study._storage.record_heartbeat(trial._trial_id)


def _is_orphan() -> bool:
    """Return whether the command that started this worker is dead."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()
