"""When checkpoints are written during training, and how a run is restored from one.

Few environments can save their state. So a checkpoint holds the build number of the environments, from which their
seed derives, and the actions since that build. A resumed run builds the environments again and repeats the actions. So
it continues identically, bit for bit.

Every ``checkpoint.freq`` steps there is an *environment rebuild*, which limits the number of actions to repeat. It
truncates running episodes in the replay buffer, builds the environments again, and writes a checkpoint. Further
checkpoints (every ``checkpoint.minutes``, after Ctrl-C or SIGTERM, at the end) truncate nothing.

The files of a checkpoint are listed in :mod:`rlher.training.checkpoint_folder`.
"""

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from rlher.algos.off_policy_algorithm import OffPolicyAlgorithm
from rlher.config.training import values_kept_on_resume
from rlher.core.console import warn
from rlher.core.errors import RunError, UserError, first_line
from rlher.core.reading import open_arrays, require_regular_file
from rlher.core.rng import get_rng_state, set_rng_state
from rlher.envs.rebuildable_vec_env import RebuildableVecEnv
from rlher.run import model_file
from rlher.run.run_folder import CHECKPOINTS_FOLDER, RunFolder
from rlher.training import checkpoint_folder
from rlher.training.checkpoint_folder import BEST_MODEL_FILE, BUFFER_FILE, ENV_ACTIONS_FILE, MODEL_FILE, STATE_FILE
from rlher.training.evaluator import Evaluator
from rlher.training.loggers import count_log_rows

NOT_REPEATABLE = (
    "replaying the running episodes gave other observations, so these episodes are truncated. "
    "The resumed run is not exactly equal to an uninterrupted one."
)


class Checkpointer:
    """Writes checkpoints when they are due, and restores a run from one.

    A checkpoint is written at the start of a rollout, when no step has begun. With ``engine.overlap`` the updates of
    the last step are still due then. The checkpoint records how many, and the resumed run does them first.

    :param model: model that is trained.
    :param evaluator: its rows and its best model are a part of a checkpoint.
    """

    def __init__(self, run: RunFolder, model: OffPolicyAlgorithm, evaluator: Evaluator) -> None:
        self._run = run
        self._parent = run.folder / CHECKPOINTS_FOLDER
        """Folder of the checkpoints."""
        self._model = model
        self._envs: RebuildableVecEnv = model.env
        self._evaluator = evaluator
        self._freq = run.config.checkpoint.freq
        minutes = run.config.checkpoint.minutes
        self._interval = math.inf if minutes is None else 60 * minutes
        self.log_rows = 0
        """Rows of ``progress.csv`` at the checkpoint that was restored."""
        self._rebuild_step = 0
        """Step of the last environment rebuild that was due; rebuilds after a loss of a worker do not count."""
        # Write a checkpoint before the first step in two cases. After init_from: that file may change before a resume.
        # After pretraining: a resume must not repeat it.
        saves_at_start = run.config.init_from or run.config.demos.pretrain_updates
        self._due_time = time.monotonic() + (0 if saves_at_start else self._interval)
        """When a checkpoint between environment rebuilds is due."""

    # ------------------------------------------------------------------------------------------------ writing

    def save_if_due(self) -> None:
        """Write a checkpoint if one is due; every ``checkpoint.freq`` steps, build the environments again before."""
        if self._freq is None:
            return
        if self._model.num_timesteps // self._freq > self._rebuild_step // self._freq:
            self._model.start_new_episodes(self._envs.rebuild())
            self._rebuild_step = self._model.num_timesteps
            self.save()
        elif time.monotonic() >= self._due_time:
            self.save()

    def ensure_saved(self) -> None:
        """Write a last checkpoint, unless there is one of this step."""
        if self._freq is None:
            return
        newest = checkpoint_folder.newest(self._parent)
        if newest is None or self._model.num_timesteps != checkpoint_folder.timesteps_of(newest):
            self.save()

    def save(self) -> None:
        """Wait for the evaluation in progress, and write a checkpoint.

        :raises RunError: training diverged, or the environment failed in the evaluation.
        :raises OSError: a file cannot be written; earlier checkpoints are unchanged.
        """
        self._evaluator.finish_running()
        self._due_time = time.monotonic() + self._interval
        with checkpoint_folder.new_checkpoint(self._parent, self._model.num_timesteps) as folder:
            self._write(folder)

    def _write(self, folder: Path) -> None:
        """Write the files of a checkpoint into an empty folder."""
        model, envs = self._model, self._envs
        (folder / MODEL_FILE).write_bytes(model_file.to_bytes(model))
        if (content := self._evaluator.best_model.content) is not None:
            (folder / BEST_MODEL_FILE).write_bytes(content)

        state = {
            "loop": model.loop_state_dict(),
            "generators": get_rng_state(),
            "build_number": envs.build_number,
            "evaluations": self._evaluator.state_dict(),
            "rebuild_step": self._rebuild_step,
            "log_rows": count_log_rows(self._run.folder),
            "config": values_kept_on_resume(self._run.config),
        }
        (folder / STATE_FILE).write_text(json.dumps(state, default=lambda value: value.tolist()))

        model.replay_buffer.save(folder / BUFFER_FILE)
        actions = np.stack(envs.actions) if envs.actions else np.zeros(0)
        last_obs: Any = model._last_obs
        observations = {f"obs_{key}": value for key, value in last_obs.items()}
        np.savez(folder / ENV_ACTIONS_FILE, actions=actions, **observations)

    # ----------------------------------------------------------------------------------------------- restoring

    def restore(self, checkpoint: Path) -> None:
        """Load a checkpoint into the model, and continue its episodes in the environments.

        It sets the random number generators, so nothing may draw from them between it and ``learn``.

        :raises UserError: it is damaged, or belongs to another model.
        :raises RunError: an environment failed while its actions were repeated.
        """
        try:
            self._load(checkpoint)
        except RunError:
            raise
        except Exception as error:  # torch refuses a pickle with an exception that is no OSError or ValueError
            advice = "rename it to use the previous checkpoint, or to start again from step 0 if there is none"
            raise UserError(f"{checkpoint} cannot be resumed from: {first_line(error)}; {advice}.") from error
        self._due_time = time.monotonic() + self._interval

    def _load(self, folder: Path) -> None:
        """Load the files of a checkpoint, see :meth:`restore`.

        :raises Exception: the content is invalid; torch, NumPy and JSON raise exceptions of many kinds.
        """
        model, envs = self._model, self._envs
        for file in folder.iterdir():
            require_regular_file(file)  # reading a pipe would block
        model_file.load_parameters(folder / MODEL_FILE, model)
        state = checkpoint_folder.read_state(folder)
        best_file = folder / BEST_MODEL_FILE
        self._evaluator.load_state_dict(state["evaluations"], best_file.read_bytes() if best_file.exists() else None)
        self._rebuild_step, self.log_rows = int(state["rebuild_step"]), int(state["log_rows"])

        model.replay_buffer.load(folder / BUFFER_FILE)
        with open_arrays(folder / ENV_ACTIONS_FILE) as stored:
            arrays = dict(stored)
        shape = (envs.num_envs, *envs.action_space.shape)  # type: ignore[misc]
        if arrays["actions"].size and arrays["actions"].shape[1:] != shape:
            raise ValueError(f"the actions have shape {arrays['actions'].shape[1:]}, not {shape}")

        observations: Any = envs.rebuild(build_number=int(state["build_number"]), actions=list(arrays["actions"]))
        model.load_loop_state_dict(state["loop"])
        if model.num_timesteps != checkpoint_folder.timesteps_of(folder):
            raise ValueError("the counters do not match the name of the checkpoint")
        set_rng_state(state["generators"])  # building the environments has used them
        is_equal = all(np.array_equal(values, arrays.get(f"obs_{key}", ())) for key, values in observations.items())
        if is_equal or not arrays["actions"].size:  # any observation can begin an episode
            model._last_obs = observations  # without it, `learn` would reset the environments
        else:
            warn(NOT_REPEATABLE)
            model.start_new_episodes(envs.rebuild())
