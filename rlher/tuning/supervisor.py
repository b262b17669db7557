"""Supervision of workers: start them, replace dead ones, requeue their trials and update the progress."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from optuna.study import Study

from rlher.core.errors import EnvironmentFault
from rlher.tuning.launchers import Launcher, Task, Worker, stop_all, wait_for_any
from rlher.tuning.study import count_unstarted, counted_trials, requeue_trials_of_dead_workers
from rlher.tuning.worker import WorkerSpec, run_worker
from rlher.tuning.worker_id import is_dead_here

POLL_SECONDS = 1.0
STOP_SECONDS = 15.0  # after which a worker that was stopped is killed
MAX_DEATHS = 10  # deaths of workers without a finished trial in between, after which the study ends


def supervise(
    study: Study, spec: WorkerSpec, n_workers: int, launch: Launcher, show_progress: Callable[[], None]
) -> None:
    """Keep workers running until every trial is finished, by this command or others that joined the study.

    :param show_progress: called once a second.
    :raises EnvironmentFault: :data:`MAX_DEATHS` workers died without a finished trial in between.
    """
    workers: list[Worker] = []
    dead: set[str] = set()
    n_started = n_deaths = n_done = 0
    # All workers of a journal run on this machine, so process ids suffice. Workers of a database may run elsewhere;
    # only those that this command started are known.
    is_dead = is_dead_here if spec.config.storage is None else dead.__contains__
    try:
        while True:
            for worker in [worker for worker in workers if not worker.is_alive()]:
                workers.remove(worker)
                n_deaths += worker.exit_code() != 0
                dead |= {worker.id} if worker.id else set()
            requeue_trials_of_dead_workers(study, is_dead)
            n_done, n_done_before = _count_done(study), n_done
            n_deaths = 0 if n_done > n_done_before else n_deaths
            if n_deaths >= MAX_DEATHS:
                raise EnvironmentFault(f"{n_deaths} workers died in a row; see the logs in {spec.folder}/workers")
            show_progress()
            n_unstarted = count_unstarted(study, spec.total)
            if not n_unstarted and n_done >= len(counted_trials(study)):
                return
            for _ in range(min(n_workers - len(workers), n_unstarted)):
                workers.append(launch(_task(replace(spec, entropy=(*spec.entropy, n_started)))))
                n_started += 1
            wait_for_any(workers, POLL_SECONDS)
    finally:
        stop_all(workers, STOP_SECONDS)
        dead |= {worker.id for worker in workers if worker.id}
        requeue_trials_of_dead_workers(study, is_dead)  # of workers that had to be killed


def _task(spec: WorkerSpec) -> Task:
    return Task(partial(run_worker, spec), spec.folder / "workers" / "{worker}.log", spec.config.threads or 1)


def _count_done(study: Study) -> int:
    return sum(trial.state.is_finished() for trial in counted_trials(study))
