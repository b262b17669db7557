"""Train an agent and keep everything in a run folder."""

from rlher.config.training import TrainConfig


def run(config: TrainConfig) -> int:
    """Train, evaluate and write the run folder.

    :return: exit code: 0, 1 if the environment failed during the run, 130 after Ctrl-C.
    :raises UserError: the config cannot be trained; no run folder was created.
    """
    from rlher.training.summary import print_result
    from rlher.training.trainer import train

    finished, result = train(config)
    print_result(finished, result)
    return result.exit_code
