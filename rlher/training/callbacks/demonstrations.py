"""The callback that learns from demonstrations before the first step: cloning, then offline updates."""

from collections.abc import Callable

from stable_baselines3.common.callbacks import BaseCallback

from rlher.algos.actor_critic import ActorCritic
from rlher.config.training import TrainConfig
from rlher.core.signals import StopRequest
from rlher.training.callbacks.evaluation import EvaluationCallback
from rlher.training.callbacks.progress import ProgressCallback

CHUNK = 100
"""Updates between two looks at the progress bar and at Ctrl-C."""


class DemonstrationCallback(BaseCallback):
    """Clone the demonstrations and update on them offline, then evaluate, all at step 0.

    Interrupted, it leaves no checkpoint, so that a resumed run does it again from the beginning.

    :param evaluations: the callback that evaluates the result; it comes before this one.
    """

    model: ActorCritic

    def __init__(
        self, config: TrainConfig, evaluations: EvaluationCallback, progress: ProgressCallback, stop: StopRequest
    ) -> None:
        super().__init__()
        self._config, self._evaluations, self._progress, self._stop = config, evaluations, progress, stop

    def _on_training_start(self) -> None:
        size = self._config.algo.batch_size
        self._repeat("cloning updates", self._config.demos.pretrain_steps, lambda n: self.model.clone(n, size))
        self._repeat("offline updates", self._config.offline_updates, lambda n: self.model.train_offline(n, size))
        self._evaluations.evaluate()

    def _on_step(self) -> bool:
        return True

    def _repeat(self, name: str, updates: int, update: Callable[[int], object]) -> None:
        """Do a number of updates in chunks.

        :raises KeyboardInterrupt: a stop was requested.
        """
        for done in range(0, updates, CHUNK):
            if self._stop.requested:
                raise KeyboardInterrupt
            update(min(CHUNK, updates - done))
            self._progress.show_updates(name, min(done + CHUNK, updates), updates)
