"""One worker: takes trial after trial of a study until its total is begun. Ten of them are ten of these, anywhere."""

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
from rlher.tuning.shared_study import SURPLUS, WORKER, is_surplus, queue_again, unclaimed
from rlher.tuning.storage import open_storage
from rlher.tuning.worker_id import worker_id

Objective = Callable[[Trial], float | Sequence[float]]
REASON = "reason"
EVALUATIONS = 20  # of a run, where eval.freq is left open
STARTUP_TRIALS = 5


class Surplus(Exception):
    """Two workers began the study's last trial at once; this one steps back."""


@dataclass(frozen=True)
class Order:
    """All that a worker must know, sent to it as it is.

    :param study_name: which study of the storage.
    :param total: trials at which it is over.
    :param objective: what a trial does.
    :param folder: of the study; holds the journal where there is no database, and the workers' logs.
    :param entropy: of the sampler's seed; no two workers have the same.
    """

    config: OptimizeConfig
    study_name: str
    total: int
    objective: Objective
    folder: Path
    entropy: tuple[int, ...]


def run(order: Order) -> None:
    """Work until nothing is left to begin."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = load(order)
    while unclaimed(study, order.total) and not _orphaned():
        _next_trial(study, order)


def load(order: Order) -> Study:
    """Open the order's study, with a sampler and a pruner of this worker's own."""
    config = order.config
    storage = open_storage(config.storage, order.folder, config.heartbeat, queue_again)
    seed = int(np.random.SeedSequence(order.entropy).generate_state(1)[0])
    return optuna.load_study(
        storage=storage, study_name=order.study_name, sampler=sampler(config.sampler, seed), pruner=pruner(config)
    )


def sampler(name: str, seed: int) -> BaseSampler:
    """Make the sampler that proposes trials."""
    if name == "random":
        return RandomSampler(seed=seed)
    if name == "cmaes":  # it proposes numbers; choices are drawn at random
        return CmaEsSampler(seed=seed, warn_independent_sampling=False)
    return TPESampler(seed=seed, multivariate=True, constant_liar=True)


def pruner(config: OptimizeConfig) -> BasePruner:
    """Make the pruner that cuts trials short."""
    evaluations = config.total_timesteps // config.eval.freq if config.eval.freq else EVALUATIONS
    if config.pruner == "median":
        return MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=evaluations // 3)
    if config.pruner == "hyperband":
        low = max(evaluations // 4, 1)
        return HyperbandPruner(min_resource=low, max_resource=max(evaluations * config.n_seeds, low))
    return NopPruner()


def _next_trial(study: Study, order: Order) -> None:
    taken: list[Trial] = []

    def objective(trial: Trial) -> float | Sequence[float]:
        taken.append(trial)
        _give_sign_of_life(study, trial)
        trial.set_user_attr(WORKER, worker_id())
        if is_surplus(study, trial.number, order.total):
            trial.set_user_attr(SURPLUS, True)
            raise Surplus
        try:
            return order.objective(trial)
        except (optuna.TrialPruned, UpdateFinishedTrialError):
            raise
        except Exception as error:  # whatever it is, the study goes on; the log has the traceback
            traceback.print_exc()
            trial.set_user_attr(REASON, f"{type(error).__name__}: {error}")
            raise

    try:
        study.optimize(objective, n_trials=1, catch=(Exception,))
    except KeyboardInterrupt:
        for trial in taken:
            frozen = study.get_trials(deepcopy=True)[trial.number]
            if frozen.state is TrialState.FAIL:
                queue_again(study, frozen, max_retry=None)
        raise
    except (UpdateFinishedTrialError, ValueError):
        # Another worker took this one for dead (the machine slept, say) and its trial with it.
        state = study.get_trials(deepcopy=False)[taken[0].number].state if taken else TrialState.RUNNING
        if not state.is_finished():
            raise


def _give_sign_of_life(study: Study, trial: Trial) -> None:
    """Record the first heartbeat before the trial bears the worker's name.

    Optuna's own comes from a thread that starts with the trial. A worker that dies before that thread has run leaves a
    trial that has a name, so that nobody waits for one, and no heartbeat, so that none is ever overdue.
    """
    if isinstance(study._storage, BaseHeartbeat):
        study._storage.record_heartbeat(trial._trial_id)


def _orphaned() -> bool:
    """Tell whether the command that started this worker is dead."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()
