"""When a training run is written down, and how it goes on from there.

Every ``checkpoint.every`` steps there is a *barrier*: running episodes are cut in the replay buffer, everything is
written, and the environments are built anew with a seed made of the run's and the barrier's number. A run that goes on
from a barrier does the same, so both continue alike, bit for bit, although no environment can save its state.

Between barriers (after some minutes, on Ctrl-C or SIGTERM, at the end) nothing is cut: the actions since the last
barrier are written too, and going on means playing them again first.
"""

import contextlib
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from rlher.config.training import CheckpointConfig
from rlher.core.console import warn
from rlher.core.errors import UserError, first_line, os_error_reason
from rlher.core.signals import StopRequest
from rlher.envs.normalize import GoalNormalize
from rlher.envs.replayable import Repeatable
from rlher.her import HerReplayBuffer
from rlher.runs import checkpoint_store
from rlher.training import training_state
from rlher.training.best_model import BestModel
from rlher.training.callbacks.evaluation import Evaluate, all_finite


class Checkpoints(BaseCallback):
    """Write checkpoints where they are due, and put a run back to where one was written.

    The place for it is the start of a rollout: all updates of the steps so far are done, and nothing has begun.

    :param folder: of the run's checkpoints.
    :param config: how often; ``every`` None: never.
    :param envs: the training environments.
    :param normalizer: around them, if there is one.
    :param evaluations: whose history belongs to the run's state.
    :param best: the run's best model, kept as it was at each checkpoint.
    :param stop: raises KeyboardInterrupt once the run was asked to stop.
    :param at_start: write one before the first step, too: what the run begins with may not be there again.
    """

    model: Any

    def __init__(
        self,
        folder: Path,
        config: CheckpointConfig,
        envs: Repeatable,
        normalizer: GoalNormalize | None,
        evaluations: Evaluate,
        best: BestModel,
        stop: StopRequest,
        at_start: bool = False,
    ) -> None:
        super().__init__()
        self.folder, self.every, self.minutes = folder, config.every, config.minutes
        self._envs, self._normalizer, self._evaluations = envs, normalizer, evaluations
        self._best, self._stop, self._at_start = best, stop, at_start
        self._barrier = 0  # steps at the last barrier
        self._saved: int | None = None  # steps at the last checkpoint
        self._saved_at = time.monotonic()
        self._resumed = False  # and the environments are not yet where they were
        self._generators: dict[str, Any] = {}
        self._episodes: tuple[np.ndarray, dict[str, np.ndarray]] | None = None  # running ones to play again
        self.seconds = 0.0  # spent writing

    def _on_rollout_start(self) -> None:
        if self._resumed:
            self._repeat()
            self._resumed = False
        if self.every is not None:
            if self._at_start and self._saved is None:
                self.save()
            if self.model.num_timesteps // self.every > self._barrier // self.every:
                self._pass_barrier()
            elif self.minutes is not None and time.monotonic() - self._saved_at > 60 * self.minutes:
                self.save()
        self._stop.raise_if_requested()

    def _on_step(self) -> bool:
        return True

    def _pass_barrier(self) -> None:
        self._buffer.storage.truncate_running()
        self._barrier = self.model.num_timesteps
        number = self._envs.number + 1
        self.save(number)
        self._begin(number)

    def _begin(self, number: int) -> None:
        """Start new episodes in the ``number``-th environments."""
        self._envs.renew(number)
        self._take_observations(self.training_env.reset())
        self._buffer.refresh_env()
        if self.model.action_noise is not None:
            self.model.action_noise.reset()

    def _take_observations(self, seen: Any) -> None:
        self.model._last_obs = seen
        self.model._last_episode_starts = np.ones(self.training_env.num_envs, dtype=bool)
        if self._normalizer is not None:
            self.model._last_original_obs = self._normalizer.get_original_obs()

    @property
    def _buffer(self) -> HerReplayBuffer:
        buffer: HerReplayBuffer = self.model.replay_buffer
        return buffer

    # ------------------------------------------------------------------------------------------------ writing

    def finish(self) -> None:
        """Write down how far the run came, unless it is written already; only between two steps."""
        if self.every is not None and self._saved != self.model.num_timesteps:
            self.save()

    def save(self, barrier: int | None = None) -> None:
        """Write a checkpoint; where the disk does not take it, say so and go on: those before are as they were.

        :param barrier: number of the environments that are built next; None: those there are go on.
        """
        if not all_finite(self.model):  # the run ends at its next evaluation, and goes back to a good one
            return
        started = time.monotonic()

        def fill(folder: Path, before: Path | None) -> None:
            self._best.save(folder)
            checkpoint_store.link_folder((before or folder) / "buffer", folder / "buffer")
            self._buffer.save(folder / "buffer")
            training_state.save(folder, self.model, self._normalizer, self._more(barrier))
            if barrier is None:
                training_state.save_episodes(folder, self._envs.actions, self._raw_observations())

        try:
            checkpoint_store.write(self.folder, self.model.num_timesteps, fill)
        except OSError as error:
            warn(f"no checkpoint at {self.model.num_timesteps:,} steps: {error}.")
        else:
            self._saved = self.model.num_timesteps
        self._saved_at = time.monotonic()
        self.seconds += self._saved_at - started

    def _more(self, barrier: int | None) -> dict[str, Any]:
        return {
            "envs": self._envs.number if barrier is None else barrier,
            "barrier": self._barrier,
            "evaluations": self._evaluations.state(),
        }

    def _raw_observations(self) -> dict[str, np.ndarray]:
        raw = self.model._last_obs if self._normalizer is None else self.model._last_original_obs
        return dict(raw)

    # ------------------------------------------------------------------------------------------------ going on

    def restore(self, checkpoint: Path, model: Any) -> None:
        """Put back what a checkpoint holds; the environments follow when ``learn`` begins.

        :raises UserError: it holds something else than checksums promised, such as a pickle, or another model.
        """
        try:
            found = training_state.load(checkpoint, model, self._normalizer)
            self._generators = found["generators"]
            training_state.set_generators(
                self._generators, model
            )  # again where they are needed; here to see that they can be
            self._episodes = training_state.load_episodes(checkpoint, model)
            model.replay_buffer.load(checkpoint / "buffer")
            self._evaluations.restore(found["evaluations"])
            self._barrier, self._saved = int(found["barrier"]), model.num_timesteps
            self._number, self._resumed = int(found["envs"]), True
        except Exception as error:  # torch refuses anything that is no tensor with an exception of pickle's
            raise UserError(f"{checkpoint} cannot be gone on from: {first_line(error)}.") from error
        model._last_obs = {}  # so that `learn` does not reset the environments, which the normaliser would count
        self._best.restore(checkpoint)

    def _repeat(self) -> None:
        """Bring environments and random numbers to where they were."""
        if self._episodes is None:
            training_state.set_generators(self._generators, self.model)
            self._begin(self._number)
            return
        actions, observations = self._episodes
        self._envs.renew(self._number)
        found: Any = self._envs.repeat(list(actions))
        self._buffer.refresh_env()
        if not _same(found, observations):
            warn(
                "this environment does not repeat itself from seed and actions, or had lost a process, so "
                "running episodes are cut here, and the run goes on otherwise than it would have."
            )
            self._buffer.storage.truncate_running()
            training_state.set_generators(self._generators, self.model)
            self._begin(self._number + 1)
            return
        if self._normalizer is not None:
            self._normalizer.old_obs = found
            found = self._normalizer.normalize_obs(found)
        self._take_observations(found)
        training_state.set_generators(self._generators, self.model)


def _same(found: Any, expected: dict[str, np.ndarray]) -> bool:
    return found.keys() == expected.keys() and all(np.array_equal(found[key], expected[key]) for key in found)


def newest_valid(folder: Path) -> tuple[Path | None, list[str]]:
    """Return the newest checkpoint whose checksums hold, and a sentence for each newer one; those are deleted.

    :raises UserError: one cannot be read, which is no reason to delete it.
    """
    said = []
    for checkpoint in checkpoint_store.newest_first(folder):
        try:
            checkpoint_store.verify(checkpoint)
        except checkpoint_store.Damaged as error:
            said.append(f"{error} The checkpoint before it is taken, if there is one.")
            with contextlib.suppress(OSError):
                shutil.rmtree(checkpoint)
        except OSError as error:
            raise UserError(f"{checkpoint} cannot be read ({os_error_reason(error)}).") from error
        else:
            return checkpoint, said
    return None, said
