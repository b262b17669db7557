"""Search for a better recipe with Optuna and test it on fresh seeds."""

from rlher.config.tuning import OptimizeConfig


def run(config: OptimizeConfig) -> int:
    """Run or continue the study and write its best recipe.

    :return: exit code: 0, or 130 after Ctrl-C.
    """
    from rlher.tuning.launchers import start_imports

    start_imports(config)  # before the next line, which imports torch as well
    from rlher.tuning.search import optimize

    return optimize(config)
