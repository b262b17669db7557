"""The process that plays evaluation episodes for :mod:`rlher.evaluation.workers`."""

import traceback
from typing import Any

import torch as th

from rlher.config.training import TrainConfig
from rlher.core.errors import EnvironmentFault, UserError
from rlher.envs.worker_process import ignore_run_signals
from rlher.evaluation.player import EpisodePlayer

STEPS, IS_CANCELLED = 0, 1
"""Entries of the array that the process shares with the main process: steps of the current request, and a flag."""


class PlayerFailed(Exception):
    """An unexpected exception in the process; the message is its traceback."""


class Cancelled(Exception):
    """The main process does not need the episodes any more."""


def serve(remote: Any, config: TrainConfig, shared: Any) -> None:
    """Send ``None`` when ready, receive a request ``(model, seeds)``, send the episodes as they end, and so on.

    In place of an episode an exception is sent if one is raised. The process ends when the pipe is closed.

    :param shared: see :data:`STEPS`.
    """
    ignore_run_signals()
    th.set_flush_denormal(True)  # as in training_setup.prepare
    player = EpisodePlayer(config)

    def on_step(*_: Any) -> None:
        shared[STEPS] += 1
        if shared[IS_CANCELLED]:
            raise Cancelled

    try:
        while True:
            remote.send(None)
            model, seeds = remote.recv()
            try:
                player.play(model, seeds, remote.send, on_step)
            except (EnvironmentFault, UserError) as error:
                remote.send(type(error)(str(error)))
            except (OSError, Cancelled):
                raise
            except Exception:
                remote.send(PlayerFailed(traceback.format_exc()))
    except (EOFError, OSError, Cancelled):  # the main process has ended, or closed the pipe
        pass
