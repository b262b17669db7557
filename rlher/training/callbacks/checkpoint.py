"""The callback that writes checkpoints during training, and restores a run from one.

Every ``checkpoint.every`` steps there is a *barrier*: running episodes are truncated in the replay buffer, the
checkpoint is written, and the environments are built again, with a seed made of the run's seed and the barrier's
number. A run that is resumed at a barrier does the same, so both continue identically, bit for bit, although no
environment can save its state.

Between barriers (every ``checkpoint.minutes``, after Ctrl-C or SIGTERM, at the end) nothing is truncated: such a
checkpoint also holds the actions since the last barrier, which are played again when the run is resumed.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from rlher.algos import exploration
from rlher.config.training import TrainConfig, values_fixed_at_resume
from rlher.core.console import warn
from rlher.core.errors import UserError, first_line, os_error_reason
from rlher.core.signals import StopRequest
from rlher.envs.normalize import GoalNormalize
from rlher.envs.vec import ReplayableVecEnv
from rlher.her import HerReplayBuffer
from rlher.runs import checkpoints
from rlher.training import random_state, training_state
from rlher.training.best_model import BestModel
from rlher.training.callbacks.evaluation import EvaluationCallback, all_finite
from rlher.training.loggers.csv_tensorboard import count_rows, pending_values, require_pending_values

NOT_REPEATABLE = (
    "the environment does not repeat the running episodes from seed and actions, or lost a process; "
    "they are truncated, and the run does not continue exactly as it would have without the interruption."
)


EVALUATED_MODEL = "evaluated_model.zip"
"""File of the model whose evaluation is in progress; it is played again when the run is resumed."""


class CheckpointCallback(BaseCallback):
    """Write checkpoints when they are due, and restore a run from one.

    Both happen at the start of a rollout: no step has begun, and all updates of the steps so far are done, except with
    ``engine.overlap`` those that are postponed, which the checkpoint records.

    :param config: says how often, with ``checkpoint.every=None`` never; what may not change of it is recorded.
    :param evaluations: the callback whose evaluations are part of a checkpoint.
    :param require_folder: called before writing; raises if the run folder is not there any more.
    :param at_start: write a checkpoint before the first step, because the model of ``init_from`` may change later.
    """

    model: Any

    def __init__(
        self,
        folder: Path,
        config: TrainConfig,
        envs: ReplayableVecEnv,
        normalizer: GoalNormalize | None,
        evaluations: EvaluationCallback,
        best_model: BestModel,
        stop: StopRequest,
        require_folder: Callable[[], None],
        at_start: bool = False,
    ) -> None:
        super().__init__()
        self._folder, self._config = folder, values_fixed_at_resume(config)
        self._every, self._minutes = config.checkpoint.every, config.checkpoint.minutes
        self._envs, self._normalizer, self._evaluations = envs, normalizer, evaluations
        self._best_model, self._stop, self._at_start = best_model, stop, at_start
        self._require_folder = require_folder
        self.log_rows = 0
        """Rows of ``progress.csv`` at the checkpoint that was restored."""
        self.log_values: dict[str, Any] = {}
        """What was recorded for the next row of ``progress.csv`` then."""
        self._barrier_step = 0
        self._saved_step: int | None = None
        self._saved_time = time.monotonic()
        self._restored: _Restored | None = None  # until the environments are restored, when training starts
        self.in_step = False
        """Whether the newest step is in no buffer yet; so it is when callbacks hear of it."""

    def _on_rollout_start(self) -> None:
        self.in_step = False
        if self._restored is not None:
            self._restore_envs(self._restored)
            self._restored = None
        if self._every is not None:
            if self._at_start and self._saved_step is None:
                self._at_start = False  # also if it cannot be written
                self.save()
            if self.model.num_timesteps // self._every > self._barrier_step // self._every:
                self._pass_barrier()
            elif self._minutes is not None and time.monotonic() - self._saved_time > 60 * self._minutes:
                self.save()
        self._stop.raise_if_requested()

    def _on_step(self) -> bool:
        self.in_step = True
        return True

    def _on_rollout_end(self) -> None:
        self.in_step = False

    def _pass_barrier(self) -> None:
        self._buffer.storage.truncate_running()
        self._barrier_step = self.model.num_timesteps
        number = self._envs.number + 1
        self.save(next_envs=number)
        self._start_envs(number)

    def _start_envs(self, number: int) -> None:
        """Build the ``number``-th environments and start new episodes in them."""
        self._envs.rebuild(number)
        self._set_last_observations(self.training_env.reset())
        self._buffer.refresh_env()
        exploration.reset(self.model)

    def _set_last_observations(self, observations: Any) -> None:
        """Set the attributes in which SB3 keeps the previous step."""
        self.model._last_obs = observations
        self.model._last_episode_starts = np.ones(self.training_env.num_envs, dtype=bool)
        if self._normalizer is not None:
            self.model._last_original_obs = self._normalizer.get_original_obs()

    @property
    def _buffer(self) -> HerReplayBuffer:
        buffer: HerReplayBuffer = self.model.replay_buffer
        return buffer

    # ------------------------------------------------------------------------------------------------ writing

    def finish(self) -> None:
        """Write a last checkpoint, unless there is one of this step."""
        if self._every is not None and self._saved_step != self.model.num_timesteps:
            self.save()

    def save(self, next_envs: int | None = None) -> None:
        """Write a checkpoint. If the disk is full, warn and keep the earlier ones.

        :param next_envs: at a barrier, the number of the environments that are built next.
        """
        self._require_folder()
        if not all_finite(self.model):  # the next evaluation ends the run; earlier checkpoints stay valid
            return

        def write_files(folder: Path, previous: Path | None) -> None:
            self._best_model.save_to(folder)
            if previous is not None:
                checkpoints.link_folder(previous / "buffer", folder / "buffer")
            self._buffer.save(folder / "buffer")
            training_state.save(folder, self.model, self._normalizer, self._progress(next_envs))
            if self._evaluations.pending is not None:  # not waited for: Ctrl-C may leave little time
                (folder / EVALUATED_MODEL).write_bytes(self._evaluations.pending.model)
            if next_envs is None:
                # a callback that ended training within a step leaves an action whose result is in no buffer
                actions = self._envs.actions[:-1] if self.in_step else self._envs.actions
                training_state.save_episodes(folder, actions, self._raw_observations())

        try:
            checkpoints.write(self._folder, self.model.num_timesteps, write_files)
        except OSError as error:
            reason = os_error_reason(error)
            warn(f"no checkpoint at {self.model.num_timesteps:,} steps ({reason}); earlier checkpoints are kept.")
        else:
            self._saved_step = self.model.num_timesteps
        self._saved_time = time.monotonic()

    def _progress(self, next_envs: int | None) -> dict[str, Any]:
        return {
            "envs": self._envs.number if next_envs is None else next_envs,
            "barrier": self._barrier_step,
            "evaluations": self._evaluations.state_dict(),
            "log_rows": count_rows(self.model.logger),
            "log_values": pending_values(self.model.logger),
            "config": self._config,
        }

    def _raw_observations(self) -> dict[str, np.ndarray]:
        raw = self.model._last_obs if self._normalizer is None else self.model._last_original_obs
        return dict(raw)

    # ----------------------------------------------------------------------------------------------- restoring

    def restore(self, checkpoint: Path, model: Any) -> None:
        """Load a checkpoint into the model, before ``learn``; the environments follow when ``learn`` starts.

        :raises UserError: its content is invalid or belongs to another model, although its checksums match.
        """
        try:
            state = training_state.load(checkpoint, model, self._normalizer)
            random_state.restore(state["generators"], model)  # raises if invalid; restored again after the environments
            episodes = training_state.load_episodes(checkpoint, model)
            model.replay_buffer.load(checkpoint / "buffer")
            evaluated = checkpoint / EVALUATED_MODEL
            self._evaluations.load_state_dict(
                state["evaluations"], evaluated.read_bytes() if evaluated.exists() else None
            )
            self._barrier_step, self._saved_step = int(state["barrier"]), model.num_timesteps
            self.log_rows = int(state.get("log_rows", sys.maxsize))  # of older versions: all rows
            self.log_values = state.get("log_values", {})  # not in checkpoints of older versions
            require_pending_values(self.log_values)
            self._restored = _Restored(int(state["envs"]), state["generators"], episodes)
        except Exception as error:  # torch refuses a pickle with an exception of its own
            others = len(checkpoints.newest_first(checkpoint.parent)) > 1
            advice = f"delete it to {'use the previous checkpoint' if others else 'start again from step 0'}"
            raise UserError(f"{checkpoint} cannot be resumed from: {first_line(error)}; {advice}.") from error
        model._last_obs = {}  # else `learn` resets the environments, which changes the normaliser's statistics
        self._best_model.restore_from(checkpoint)

    def _restore_envs(self, restored: "_Restored") -> None:
        """Bring environments and random numbers to where they were at the checkpoint."""
        if restored.episodes is None:
            random_state.restore(restored.generators, self.model)
            self._start_envs(restored.envs_number)
            return
        actions, expected = restored.episodes
        self._envs.rebuild(restored.envs_number)
        observations: Any = self._envs.replay(list(actions))
        self._buffer.refresh_env()
        if not _equal(observations, expected):
            warn(NOT_REPEATABLE)
            self._buffer.storage.truncate_running()
            random_state.restore(restored.generators, self.model)
            self._start_envs(restored.envs_number + 1)
            return
        if self._normalizer is not None:
            self._normalizer.old_obs = observations
            observations = self._normalizer.normalize_obs(observations)
        self._set_last_observations(observations)
        random_state.restore(restored.generators, self.model)


class FinalCheckpointCallback(BaseCallback):
    """Write the last checkpoint of training; to be called after the callbacks whose state a checkpoint holds.

    With ``engine.overlap`` some updates are still due then, so a longer run goes on as if it had not ended here.
    """

    def __init__(self, checkpoints: CheckpointCallback) -> None:
        super().__init__()
        self._checkpoints = checkpoints

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self._checkpoints.finish()


@dataclass(frozen=True)
class _Restored:
    """The part of a checkpoint that is needed when training starts.

    :param envs_number: as in :meth:`ReplayableVecEnv.rebuild`.
    :param episodes: actions since the barrier, and the observations after them; None: the checkpoint is a barrier.
    """

    envs_number: int
    generators: dict[str, Any]
    episodes: tuple[np.ndarray, dict[str, np.ndarray]] | None


def _equal(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> bool:
    return one.keys() == two.keys() and all(np.array_equal(one[key], two[key]) for key in one)
