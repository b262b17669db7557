"""When checkpoints are written during training, and how a run is restored from one.

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

from rlher.algos.training_loop import GoalAlgorithm
from rlher.config.key import compared_values
from rlher.core.console import warn
from rlher.core.errors import UserError, first_line
from rlher.envs.restorable_vec_env import RestorableVecEnv
from rlher.run import model_file
from rlher.run.run_folder import RunFolder
from rlher.training.checkpoints import checkpoint_files, checkpoint_state
from rlher.training.checkpoints.checkpoint_state import EnvPoint
from rlher.training.evaluations import Evaluations
from rlher.training.loggers import count_rows

NOT_REPEATABLE = (
    "replaying the running episodes gave other observations, so these episodes are truncated. "
    "The resumed run is not exactly equal to an uninterrupted one."
)


class Checkpointer:
    """Writes checkpoints when they are due, and restores a run from one.

    A checkpoint is written at the start of a rollout, when no step has begun. With ``engine.overlap`` the updates of
    the last step are still due then. The checkpoint records how many, and the resumed run does them first.

    :param model: model that is trained in ``envs``.
    :param evaluations: a part of a checkpoint, with the best model.
    """

    def __init__(self, run: RunFolder, model: GoalAlgorithm, envs: RestorableVecEnv, evaluations: Evaluations) -> None:
        self._run = run
        self._model = model
        self._freq = run.config.checkpoint.freq
        minutes = run.config.checkpoint.minutes
        self._interval = math.inf if minutes is None else 60 * minutes
        self._envs = envs
        self._evaluations = evaluations
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
        """Where the environments continue; None: at the beginning of episodes."""

    # ------------------------------------------------------------------------------------------------ writing

    def save_if_due(self) -> None:
        """Write a checkpoint if one is due; every ``checkpoint.freq`` steps, build the environments again before."""
        if self._freq is None:
            return
        if self._model.num_timesteps // self._freq > self._rebuild_step // self._freq:
            self._model.start_new_episodes(self._envs.rebuild)
            self._rebuild_step = self._model.num_timesteps
            self.save()
        elif time.monotonic() >= self._due_time:
            self.save()

    def save_unless_saved(self) -> None:
        """Write a last checkpoint, unless there is one of this step."""
        written = checkpoint_files.newest_first(self._run.checkpoints_path)[:1]
        if self._freq is not None and self._model.num_timesteps not in map(checkpoint_files.timesteps_of, written):
            self.save()

    def save(self) -> None:
        """Wait for the evaluation in progress, and write a checkpoint.

        :raises RunError: training diverged, or the environment failed in the evaluation.
        :raises OSError: a file cannot be written; earlier checkpoints are unchanged.
        """
        self._evaluations.finish_pending()
        self._due_time = time.monotonic() + self._interval
        model_file.require_finite(self._model)
        state = {
            "rebuild_step": self._rebuild_step,
            "log_rows": count_rows(self._run.folder),
            "config": compared_values(self._run.config, "resume"),  # the values that may not change
        }
        with checkpoint_files.new_checkpoint(self._run.checkpoints_path, self._model.num_timesteps) as folder:
            checkpoint_state.save(folder, self._model, self._envs, self._evaluations, state)

    # ----------------------------------------------------------------------------------------------- restoring

    def restore(self, checkpoint: Path) -> None:
        """Load a checkpoint into the model, but not the environments.

        :raises UserError: its content is invalid or belongs to another model, although its checksums match.
        """
        try:
            state, self._env_point = checkpoint_state.load(checkpoint, self._model, self._envs, self._evaluations)
            self._rebuild_step, self.log_rows = int(state["rebuild_step"]), int(state["log_rows"])
        except Exception as error:  # torch refuses a pickle with an exception that is no OSError or ValueError
            advice = "rename it to use the previous checkpoint, or to start again from step 0 if there is none"
            raise UserError(f"{checkpoint} cannot be resumed from: {first_line(error)}; {advice}.") from error
        self._due_time = time.monotonic() + self._interval

    def restore_envs(self) -> None:
        """After :meth:`restore`, directly before ``learn``: repeat the actions, set the random number generators.

        Call it last, because it sets the generators. It also sets the observations, without which ``learn`` would reset
        the environments.
        """
        point, self._env_point = self._env_point, None
        if point is None:
            return
        observations: Any = self._envs.rebuild(build_number=point.build_number, actions=list(point.actions))
        checkpoint_state.restore_generators(point.generators, self._model)
        is_equal = all(np.array_equal(values, point.observations.get(key, ())) for key, values in observations.items())
        if is_equal or len(point.actions) == 0:  # any observation can begin an episode
            self._model._last_obs = observations
        else:
            warn(NOT_REPEATABLE)
            self._model.start_new_episodes(self._envs.rebuild)
