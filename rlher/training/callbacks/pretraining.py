"""The callback that pretrains the actor by behavioural cloning before the first step."""

from stable_baselines3.common.callbacks import BaseCallback

from rlher.algos.actor_critic import ActorCritic
from rlher.config.training import TrainConfig
from rlher.core.signals import StopRequest
from rlher.training.callbacks.evaluation import EvaluationCallback
from rlher.training.callbacks.progress import ProgressCallback

CHUNK = 100
"""Updates between two looks at the progress bar and at Ctrl-C."""


class PretrainCallback(BaseCallback):
    """Before the first step, do ``demos.pretrain_updates`` updates by behavioural cloning, then evaluate.

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
        """Pretrain in chunks.

        :raises KeyboardInterrupt: a stop was requested.
        """
        updates = self._config.demos.pretrain_updates
        for done in range(0, updates, CHUNK):
            if self._stop.requested:
                raise KeyboardInterrupt
            self.model.pretrain(min(CHUNK, updates - done), self._config.algo.batch_size)
            self._progress.show_updates("pretraining updates", min(done + CHUNK, updates), updates)
        if updates:
            self._evaluations.evaluate()

    def _on_step(self) -> bool:
        return True
