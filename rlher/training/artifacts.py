"""Optional files of a run, written after each evaluation: its model, and a clip of each new best model."""

from contextlib import closing
from pathlib import Path
from typing import Any

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault, UserError
from rlher.core.files import warn_on_write_error
from rlher.core.rng import preserve_rng_state
from rlher.envs.make import make_env
from rlher.envs.normalize import GoalNormalize
from rlher.evaluation.rollout import make_policy, play_episodes
from rlher.evaluation.video.recorder import record_video
from rlher.runs import model_file
from rlher.runs.run_folder import Run

CLIP_EPISODES = 2
"""Episodes of a clip: the first ones of the evaluation that found the model."""


class ArtifactWriter:
    """Writes ``models/<steps>.zip`` if ``eval.keep_models`` is set, and ``clips/<steps>.mp4`` if ``record`` is set."""

    def __init__(self, run: Run, model: OffPolicyAlgorithm, normalizer: GoalNormalize | None) -> None:
        self._run, self._model, self._normalizer = run, model, normalizer
        self._records = run.config.record

    def write(self, row: dict[str, Any], is_best: bool) -> None:
        """Write the files of the model that was just evaluated.

        :param row: of ``evaluations.csv``.
        """
        if self._run.config.eval.keep_models:
            path = self._run.model(str(row["timesteps"]))
            with warn_on_write_error("a model by steps"):
                path.parent.mkdir(exist_ok=True)
                model_file.save(path, self._model, self._normalizer)
        if is_best and self._records:
            with preserve_rng_state():
                self._record(self._run.folder / "clips" / f"{row['timesteps']}.mp4")

    def _record(self, path: Path) -> None:
        """Record a clip in an environment of its own; if it cannot be rendered, warn and record no more clips."""
        config = self._run.config
        policy = make_policy(self._model, self._normalizer)
        try:
            with (
                closing(make_env(config.env, render_mode="rgb_array")) as env,
                record_video(path, env, config.env, CLIP_EPISODES) as video,
            ):
                for _ in play_episodes(env, policy, CLIP_EPISODES, config.eval.seed, video):
                    pass
                self._records = not video.failed
        except (UserError, EnvironmentFault) as error:
            warn(f"no clips are recorded: {error}")
            self._records = False
