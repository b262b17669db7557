"""Search for a better recipe with Optuna and test it on fresh seeds."""

from rlher.config.tuning import OptimizeConfig
from rlher.core.errors import UserError


def run(config: OptimizeConfig, command_line: str) -> int:
    """Run or continue the study and write its best recipe.

    :return: exit code: 0, 1 without a comparison because re-runs failed, 130 after Ctrl-C.
    """
    if config.resume is not None:
        raise UserError("optimize has no --resume: the same command again continues its study.")
    from rlher.jobs import job_pool

    job_pool.start_fork_server_for_jobs(config)  # it imports torch at the same time as the next line
    from rlher.tuning.search import optimize

    return optimize(config, command_line)
