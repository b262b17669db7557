"""The callback that writes checkpoints during training, and restores a run from one.

No environment can save its state, so a checkpoint holds the number of the environments' build, which gives their seed,
and the actions since then. A run that is resumed builds the environments again and repeats the actions, so it
continues identically, bit for bit.

Every ``checkpoint.freq`` steps there is an *environment rebuild*, so that there are never many actions to repeat:
running episodes are truncated in the replay buffer, the environments are built again, and a checkpoint is written.
Further checkpoints (every ``checkpoint.minutes``, after Ctrl-C or SIGTERM, at the end) truncate nothing.
"""

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from rlher.config.key import compared_values
from rlher.core.console import warn
from rlher.core.errors import UserError, first_line
from rlher.core.signals import StopRequest
from rlher.envs.vec_env import RestorableVecEnv
from rlher.run.model_file import all_finite
from rlher.run.run_folder import RunFolder
from rlher.training.callbacks.evaluation import EvaluationCallback
from rlher.training.checkpoints import files as checkpoint_files
from rlher.training.checkpoints import state as checkpoint_state
from rlher.training.checkpoints.state import EnvPoint
from rlher.training.loggers import count_rows

NOT_REPEATABLE = (
    "replaying the running episodes gave other observations, so these episodes are truncated. "
    "The resumed run is not exactly equal to an uninterrupted one."
)


class CheckpointCallback(BaseCallback):
    """Write checkpoints when they are due, and restore a run from one.

    Both happen at the start of a rollout: no step has begun, and all updates of the steps so far are done. With
    ``engine.overlap`` the last updates are still due; the checkpoint records how many.

    :param evaluations: the callback whose evaluations and best model are part of a checkpoint.
    """

    model: Any

    def __init__(
        self, run: RunFolder, envs: RestorableVecEnv, evaluations: EvaluationCallback, stop: StopRequest
    ) -> None:
        super().__init__()
        self._run = run
        self._freq = run.config.checkpoint.freq
        minutes = run.config.checkpoint.minutes
        self._interval = math.inf if minutes is None else 60 * minutes
        self._envs = envs
        self._evaluations = evaluations
        self._stop = stop
        self.log_rows = 0
        """Rows of ``progress.csv`` at the checkpoint that was restored."""
        self._rebuild_step = 0
        """Step of the last environment rebuild."""
        # Write a checkpoint before the first step in two cases. After init_from: that file may change before a resume.
        # After pretraining: a resume must not repeat it.
        saves_at_start = run.config.init_from or run.config.demos.pretrain_updates
        self._due_time = time.monotonic() + (0 if saves_at_start else self._interval)
        """When a checkpoint between environment rebuilds is due."""
        self._env_point: EnvPoint | None = None
        """To which the environments return when training starts; None: they start at their beginning."""

    def _on_rollout_start(self) -> None:
        if self._env_point is not None:
            self._restore_envs(self._env_point)
            self._env_point = None
        if self._freq is not None:
            if self.model.num_timesteps // self._freq > self._rebuild_step // self._freq:
                self._rebuild_envs()
                self._rebuild_step = self.model.num_timesteps
                self.save()
            elif time.monotonic() >= self._due_time:
                self.save()
        if self._stop.requested:
            self.save_unless_saved()
            raise KeyboardInterrupt

    def _on_step(self) -> bool:
        return True

    def _rebuild_envs(self) -> None:
        self.model.start_new_episodes(self._envs.rebuild)

    def _on_training_end(self) -> None:
        self._evaluations.on_training_end()  # the checkpoint holds its rows; a second call does nothing
        self.save_unless_saved()

    # ------------------------------------------------------------------------------------------------ writing

    def save_unless_saved(self) -> None:
        """Write a last checkpoint, unless there is one of this step.

        With ``engine.overlap`` some updates are still due; the checkpoint records how many, and a longer run does them
        first.
        """
        written = checkpoint_files.newest_first(self._run.checkpoints_path)[:1]
        if self._freq is not None and self.model.num_timesteps not in map(checkpoint_files.timesteps_of, written):
            self.save()

    def save(self) -> None:
        """Wait for the evaluation in progress, and write a checkpoint.

        :raises RunError: the environment failed in the evaluation.
        :raises OSError: a file cannot be written; earlier checkpoints are unchanged.
        """
        self._evaluations.finish_pending()
        self._due_time = time.monotonic() + self._interval
        if all_finite(self.model):  # else the next evaluation ends the run; earlier checkpoints stay valid
            checkpoint_files.write(self._run.checkpoints_path, self.model.num_timesteps, self._fill)

    def _fill(self, folder: Path) -> None:
        progress = {
            "rebuild_step": self._rebuild_step,
            "log_rows": count_rows(self._run.folder),
            "config": compared_values(self._run.config, "resume"),
        }
        checkpoint_state.save(folder, self.model, self._envs, self._evaluations, progress)

    # ----------------------------------------------------------------------------------------------- restoring

    def restore(self, checkpoint: Path, model: Any) -> None:
        """Load a checkpoint into the model, before ``learn``; the environments follow when ``learn`` starts.

        :raises UserError: its content is invalid or belongs to another model, although its checksums match.
        """
        try:
            state, self._env_point = checkpoint_state.load(checkpoint, model, self._envs, self._evaluations)
            self._rebuild_step = int(state["rebuild_step"])
            self.log_rows = int(state["log_rows"])
        except Exception as error:  # torch refuses a pickle with an exception that is no OSError or ValueError
            advice = "rename it to use the previous checkpoint, or to start again from step 0 if there is none"
            raise UserError(f"{checkpoint} cannot be resumed from: {first_line(error)}; {advice}.") from error
        self._due_time = time.monotonic() + self._interval
        model._last_obs = {}  # else `learn` resets the environments, which changes the statistics of the observations
        if self._evaluations.best_model is None:  # a best model after the checkpoint; the resumed run may find another
            self._run.model_path("best").unlink(missing_ok=True)
        self._evaluations.write_best_model()

    def _restore_envs(self, point: EnvPoint) -> None:
        """Build the environments, repeat the actions in them, and set the random number generators."""
        repeated = self._envs.repeat_actions(point.build_number, list(point.actions))
        observations = self.model.with_channels_first(repeated)
        checkpoint_state.restore_generators(point.generators, self.model)
        is_equal = all(np.array_equal(values, point.observations.get(key, ())) for key, values in observations.items())
        if is_equal or len(point.actions) == 0:  # any observation can begin an episode
            self.model._last_obs = observations
        else:
            warn(NOT_REPEATABLE)
            self._rebuild_envs()
