"""Search for a better recipe with Optuna and test it on fresh seeds."""

from rlher.config.tuning import OptimizeConfig


def run(config: OptimizeConfig) -> int:
    """Run or continue the study and write its best recipe.

    :return: exit code: 0, or 130 after Ctrl-C.
    """
    from rlher.tuning import fork_server

    if config.launcher == "local":  # first, so that its imports run beside those of this process
        fork_server.start(fork_server.TRIAL_MODULES)
    from rlher.tuning.search import optimize

    return optimize(config)
