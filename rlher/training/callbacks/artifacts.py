"""Callbacks that write optional files of a run: a model per evaluation, video clips of the best models."""

from contextlib import closing
from pathlib import Path
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault, UserError
from rlher.core.files import warn_on_write_error
from rlher.core.rng import preserve_rng_state
from rlher.envs import make_env
from rlher.envs.normalize import GoalNormalize
from rlher.evaluation.policy import make_policy
from rlher.evaluation.rollout import play_episodes
from rlher.evaluation.video.recorder import record_video
from rlher.runs import model_file
from rlher.runs.run_folder import Run
from rlher.training import messages
from rlher.training.callbacks.evaluation import EvaluationCallback

CLIP_EPISODES = 2
"""Episodes of a clip: the first ones of the evaluation that found the model."""


def artifact_callbacks(
    run: Run, evaluations: EvaluationCallback, normalizer: GoalNormalize | None
) -> list[BaseCallback]:
    """Return the callbacks that a run's config asks for; they come after ``evaluations``."""
    callbacks: list[BaseCallback] = []
    if run.config.eval.keep_models:
        callbacks.append(SaveModels(run, evaluations, normalizer))
    if run.config.record:
        callbacks.append(RecordClips(run, evaluations, normalizer))
    return callbacks


class _ArtifactCallback(BaseCallback):
    """Calls :meth:`write_new` whenever an evaluation may have happened: between two steps, and at the end."""

    model: Any

    def __init__(self, run: Run, evaluations: EvaluationCallback, normalizer: GoalNormalize | None) -> None:
        super().__init__()
        self._run, self._evaluations, self._normalizer = run, evaluations, normalizer

    def write_new(self) -> None:
        """Write the files that are new since the last call."""
        raise NotImplementedError

    def _on_rollout_start(self) -> None:
        self.write_new()

    def _on_training_end(self) -> None:
        self.write_new()

    def _on_step(self) -> bool:
        return True


class SaveModels(_ArtifactCallback):
    """Write the model of every evaluation to ``models/<steps>.zip``."""

    def _on_training_start(self) -> None:
        self._n_saved = len(self._evaluations.rows)
        self._run.model("0").parent.mkdir(exist_ok=True)

    def write_new(self) -> None:
        """Write the model that was just evaluated."""
        rows = self._evaluations.rows
        if len(rows) > self._n_saved:
            self._n_saved = len(rows)
            with warn_on_write_error("a model by steps"):
                model_file.save(self._run.model(str(rows[-1]["timesteps"])), self.model, self._normalizer)


class RecordClips(_ArtifactCallback):
    """Record each new best model as ``clips/<steps>.mp4``, in an environment of its own.

    The run's random numbers do not depend on it. If the environment cannot be rendered, it warns once and stops.
    """

    def _on_training_start(self) -> None:
        self._recorded = self._evaluations.best
        self._broken = False

    def write_new(self) -> None:
        """Record the model if it was just found to be the best."""
        best = self._evaluations.best
        if best is not None and best is not self._recorded and not self._broken:
            self._recorded = best
            with preserve_rng_state():
                self._record(self._run.folder / "clips" / f"{best['timesteps']}.mp4")

    def _record(self, path: Path) -> None:
        config = self._run.config
        policy = make_policy(self.model, self._normalizer)
        try:
            with (
                closing(make_env(config.env, render_mode="rgb_array")) as env,
                record_video(path, env, config.env, CLIP_EPISODES) as video,
            ):
                for _ in play_episodes(env, policy, CLIP_EPISODES, config.eval.seed, video):
                    pass
                self._broken = video.failed
        except (UserError, EnvironmentFault) as error:
            warn(messages.no_clip(error))
            self._broken = True
