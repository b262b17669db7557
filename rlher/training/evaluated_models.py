"""The optional files of each evaluated model: the model itself, and a film of it."""

import io
from contextlib import closing
from pathlib import Path

from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault, UserError
from rlher.core.files import warn_on_write_error, write_bytes
from rlher.core.rng import preserve_rng_state
from rlher.envs.make import make_env
from rlher.evaluation.agent import load_model
from rlher.evaluation.rollout import make_policy, play_episodes
from rlher.run.run_folder import RunFolder

CLIP_EPISODES = 2
"""Episodes of a clip: the first ones of the evaluation that found the model."""


class EvaluatedModelFiles:
    """Writes ``models/<steps>.zip`` if ``eval.keep_models`` is set, and ``clips/<steps>.mp4`` if ``record`` is set."""

    def __init__(self, run: RunFolder) -> None:
        self._run, self._records = run, run.config.record

    def write(self, steps: int, model: bytes, is_best: bool) -> None:
        """Write the files of a model that was just evaluated.

        :param steps: environment steps after which it was saved.
        :param model: content of its model file.
        """
        if self._run.config.eval.keep_models:
            path = self._run.model(str(steps))
            with warn_on_write_error(path):
                path.parent.mkdir(exist_ok=True)
                write_bytes(path, model)
        if is_best and self._records:
            with preserve_rng_state():
                self._record(self._run.folder / "clips" / f"{steps}.mp4", model)

    def _record(self, path: Path, model: bytes) -> None:
        """Record a clip in a new environment; if it cannot be rendered, warn and record no more clips."""
        from rlher.evaluation.video import record_video  # few runs record clips

        config = self._run.config
        try:
            with (
                closing(make_env(config.env, render_mode="rgb_array")) as env,
                record_video(path, env, config.env, CLIP_EPISODES) as video,
            ):
                policy = make_policy(load_model(config, io.BytesIO(model), env))
                for _ in play_episodes(env, policy, CLIP_EPISODES, config.eval.seed, video):
                    pass
                self._records = not video.failed
        except (UserError, EnvironmentFault) as error:
            warn(f"no clips are recorded: {error}")
            self._records = False
