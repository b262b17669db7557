"""Search for a better recipe with Optuna and test it on fresh seeds."""

from rlher.config.tuning import OptimizeConfig
from rlher.core.errors import UserError


def run(config: OptimizeConfig, command: str) -> int:
    """Run or continue the study and write its best recipe.

    :return: exit code: 0, or 130 after Ctrl-C.
    """
    if config.resume is not None:
        raise UserError("optimize has no --resume: the same command again continues its study.")
    from rlher.tuning.search import optimize

    return optimize(config, command)
