"""The command's own part while workers work: start them, replace the dead, free their trials, show a table."""

import time
from collections.abc import Callable
from dataclasses import replace

from optuna.study import Study

from rlher.core.errors import EnvironmentFault
from rlher.tuning.launchers import Launcher, Worker
from rlher.tuning.shared_study import counted, free_dead, unclaimed
from rlher.tuning.worker import Order
from rlher.tuning.worker_id import is_gone

POLL_SECONDS = 1.0
MAX_DEATHS = 10  # workers that die in a row without a trial done between: something is wrong with all of them


def supervise(study: Study, order: Order, workers: int, launcher: Launcher, show: Callable[[], None]) -> None:
    """Keep workers at it until every trial of the order is done, here or by whoever else joined the study.

    :param show: called once a second, to show how far the study is.
    :raises EnvironmentFault: workers die as fast as they are started.
    """
    team: list[Worker] = []
    dead: set[str] = set()
    started = deaths = done = 0
    is_dead = _judge(order, dead)
    try:
        while True:
            for worker in [each for each in team if not each.alive()]:
                team.remove(worker)
                deaths += worker.failed()
                dead |= {worker.id} if worker.id else set()
            free_dead(study, is_dead)
            done, before = _done(study), done
            deaths = 0 if done > before else deaths
            if deaths > MAX_DEATHS:
                raise EnvironmentFault(f"workers die as fast as they are started; {order.folder}/workers says why.")
            show()
            open_trials = unclaimed(study, order.total)
            if not open_trials and done >= len(counted(study)):
                return
            for _ in range(min(workers - len(team), open_trials)):
                team.append(launcher.start(replace(order, entropy=(*order.entropy, started))))
                started += 1
            time.sleep(POLL_SECONDS)
    finally:
        for worker in team:
            worker.stop()
        for worker in team:
            worker.join()


def _judge(order: Order, dead: set[str]) -> Callable[[str], bool]:
    """Tell the dead by process id where a journal says that all are of this machine; else own children only."""
    if order.config.storage is None:
        return is_gone
    return lambda worker: worker in dead


def _done(study: Study) -> int:
    return sum(trial.state.is_finished() for trial in counted(study))
