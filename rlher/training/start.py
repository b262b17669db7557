"""Start or resume a run.

Nothing here imports torch, so that the fork server starts before this process imports it.
"""

from typing import TYPE_CHECKING

from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.core.workers import start_fork_server
from rlher.training.processes import envs_in_workers, eval_workers

if TYPE_CHECKING:
    from rlher.run.run_folder import RunFolder
    from rlher.training.result import RunResult


def train_or_resume(
    config: TrainConfig, command: str, resumed: "RunFolder | None" = None
) -> "tuple[RunFolder, RunResult]":
    """Train a new run, or resume one, and return its folder and result.

    The fork server imports for seconds, as this process does. It is started before torch is imported here, so that both
    import at the same time.

    :param command: the command line, for the run folder.
    :param resumed: the run to resume; None: a new one.
    :raises UserError: the config cannot be trained; no run folder was created, or the one to resume is unchanged.
    """
    if envs_in_workers(config) or eval_workers(config):
        start_fork_server()
    if resumed is not None:
        from rlher.training.resume import resume

        return resume(resumed, config, command)
    from rlher.training.trainer import train_new_run

    if (config.workers, config.launcher) != (TrainConfig.workers, TrainConfig.launcher):
        raise UserError("workers= and launcher= need the runs of a sweep; add -m and, for example, seed=0,1,2.")
    return train_new_run(config, command)
