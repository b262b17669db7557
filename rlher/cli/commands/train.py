"""`rlher train`: train an agent and keep everything in a run folder."""

from rlher.config.training import TrainConfig
from rlher.training import trainer
from rlher.training.summary import print_result


def train(config: TrainConfig) -> int:
    """Train, evaluate and keep everything in a run folder.

    :return: exit code: 0, 1 where the environment broke down in mid-run, 130 after Ctrl-C.
    :raises UserError: the config asks for something that cannot be done; nothing was started.
    """
    run, result = trainer.train(config)
    print_result(run, result)
    return result.exit_code
