"""Optional files of a run, written after each evaluation: its model, and a clip of each new best model."""

from contextlib import closing
from pathlib import Path
from typing import Any

from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault, UserError
from rlher.core.files import atomic_write, warn_on_write_error
from rlher.core.rng import preserve_rng_state
from rlher.envs.make import make_env
from rlher.evaluation.player import EpisodePlayer
from rlher.evaluation.rollout import play_episodes
from rlher.runs.run_folder import Run

CLIP_EPISODES = 2
"""Episodes of a clip: the first ones of the evaluation that found the model."""


class ArtifactWriter:
    """Writes ``models/<steps>.zip`` if ``eval.keep_models`` is set, and ``clips/<steps>.mp4`` if ``record`` is set."""

    def __init__(self, run: Run) -> None:
        self._run, self._records = run, run.config.record

    def write(self, row: dict[str, Any], model: bytes, is_best: bool) -> None:
        """Write the files of the model that was just evaluated.

        :param row: of ``evaluations.csv``.
        :param model: content of its model file.
        """
        if self._run.config.eval.keep_models:
            path = self._run.model(str(row["timesteps"]))
            with warn_on_write_error("a model by steps"):
                path.parent.mkdir(exist_ok=True)
                with atomic_write(path) as temporary:
                    temporary.write_bytes(model)
        if is_best and self._records:
            with preserve_rng_state():
                self._record(self._run.folder / "clips" / f"{row['timesteps']}.mp4", model)

    def _record(self, path: Path, model: bytes) -> None:
        """Record a clip in an environment of its own; if it cannot be rendered, warn and record no more clips."""
        from rlher.evaluation.video.recorder import record_video  # few runs record clips

        config = self._run.config
        try:
            with (
                closing(make_env(config.env, render_mode="rgb_array")) as env,
                record_video(path, env, config.env, CLIP_EPISODES) as video,
            ):
                policy = EpisodePlayer(config).load(model, env)
                for _ in play_episodes(env, policy, CLIP_EPISODES, config.eval.seed, video):
                    pass
                self._records = not video.failed
        except (UserError, EnvironmentFault) as error:
            warn(f"no clips are recorded: {error}")
            self._records = False
