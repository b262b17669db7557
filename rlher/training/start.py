"""Start or continue a training run: what commands, the Python API and the jobs of a sweep call.

The fork server imports for seconds, and so does this process. Nothing here imports torch before the server is started,
so that both import at the same time.
"""

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlher.config.compose import changed_config
from rlher.config.training import ResumeConfig, TrainConfig
from rlher.config.trust import trusts_code
from rlher.core.machine import available_cores
from rlher.core.workers import start_fork_server
from rlher.run import lookup, run_folder
from rlher.run.result import RunResult
from rlher.run.run_folder import RunFolder

WORKER_MODULES = ("rlher.core.gc_threshold", "rlher.envs.vec_env", "rlher.evaluation.parallel_evaluation")
"""What the workers of a run import."""

JOB_MODULES = (*WORKER_MODULES, "rlher.training.resume", "sb3_contrib", "scipy.stats")
"""What the workers of a sweep import, which train runs."""

if TYPE_CHECKING:
    from rlher.training.evaluation_schedule import OnEvaluation


def train(
    config: TrainConfig, command_line: str, on_evaluation: "OnEvaluation | None" = None
) -> tuple[RunFolder, RunResult]:
    """Train a new run and write everything into its run folder.

    :param command_line: the command line, for the run folder.
    :param on_evaluation: called with all rows after each evaluation; it may raise
        :class:`~rlher.training.evaluation_schedule.StopTraining`. Such a run has no final evaluation.
    :raises UserError: the config cannot be trained; nothing was written.
    :raises RunError, KeyboardInterrupt: as of :meth:`~rlher.training.trainer.Trainer.run_to_end`.
    """
    _start_fork_server_if_needed(config)
    from rlher.training.messages import print_header
    from rlher.training.preparation import prepare
    from rlher.training.trainer import Trainer

    with prepare(config) as setup:
        run = run_folder.create(setup.config, config, command_line)
        with run_folder.locked(run.folder):
            try:
                trainer = Trainer(run, setup, on_evaluation)
                print_header(run, setup.notes)
            except BaseException:  # after Ctrl-C, too: without a result it would look like a run that was killed
                shutil.rmtree(run.folder, ignore_errors=True)
                raise
            return run, trainer.run_to_end()


def config_to_resume(overrides: Mapping[str, Any]) -> ResumeConfig:
    """Return the config of a run that is resumed, with the values that change.

    :param overrides: values by key; ``run`` names the run, by default the newest unfinished one.
    :raises UserError: there is no such run, its code is not trusted, or an override is invalid.
    """
    changes = dict(overrides)
    name = changes.pop("run", None)
    logs = str(changes.get("logs", TrainConfig.logs))
    trust_code = trusts_code(changes)
    run = lookup.open_run(str(name), logs, trust_code) if name else lookup.run_to_resume(logs, trust_code)
    return changed_config(run.config, {**changes, "run": str(run.folder)})


def resume(config: ResumeConfig, command_line: str) -> tuple[RunFolder, RunResult]:
    """Continue a run; see :func:`rlher.training.resume.resume_run`."""
    _start_fork_server_if_needed(config)
    from rlher.training.resume import resume_run

    return resume_run(config, command_line)


def _start_fork_server_if_needed(config: TrainConfig) -> None:
    if config.threads != 1 and available_cores() > 1:  # a run on one core has workers only if its config says so
        start_fork_server(WORKER_MODULES)
