"""The best model of a run, and the optional files of each evaluated model."""

import io
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

from rlher.core.console import warn
from rlher.core.errors import EnvironmentFault, UserError
from rlher.core.files import atomic_write, warn_on_write_error
from rlher.core.rng import preserve_rng_state
from rlher.envs.make import make_env
from rlher.evaluation.agent import load_model
from rlher.evaluation.rollout import make_policy, play_episodes
from rlher.run import checkpoints
from rlher.run.run_folder import RunFolder

CLIP_EPISODES = 2
"""Episodes of a clip: the first ones of the evaluation that found the model."""


class BestModel:
    """The model with the highest success rate; ties go to the higher return, then to the later model.

    Its content is kept in memory until it is written, because the disk may be full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.row: dict[str, Any] | None = None
        """Its row of ``evaluations.csv``, None before the first evaluation."""
        self._unwritten: bytes | None = None

    def offer(self, row: dict[str, Any], content: bytes) -> bool:
        """Return whether an evaluated model is the best so far; if so, keep it. :meth:`write` writes it."""
        if self.row is not None and _rank(row) < _rank(self.row):
            return False
        self.row = row
        self.set(content)
        return True

    def set(self, content: bytes) -> None:
        """Replace the best model in memory."""
        self._unwritten = content

    def write(self) -> None:
        """Write the model if that is still to do.

        :raises OSError: it cannot be written; it stays in memory for the next call.
        """
        if self._unwritten is not None:
            with atomic_write(self.path) as temporary:
                temporary.write_bytes(self._unwritten)
            self._unwritten = None

    def read(self) -> bytes:
        """Return the content of its file."""
        return self.path.read_bytes() if self._unwritten is None else self._unwritten

    def save_to(self, checkpoint: Path) -> None:
        """Add the model to a checkpoint, if there is a model yet.

        :raises OSError: it cannot be written.
        """
        self.write()
        if self.path.exists():
            checkpoints.link(self.path, checkpoint / self.path.name)

    def restore_from(self, checkpoint: Path) -> None:
        """Replace the file by the checkpoint's: a model found after the checkpoint may not be found again."""
        saved = checkpoint / self.path.name
        if not saved.exists():
            self.path.unlink(missing_ok=True)
            return
        with atomic_write(self.path) as temporary:
            shutil.copyfile(saved, temporary)


def _rank(row: dict[str, Any]) -> tuple[float, float]:
    return row["success_rate"], row["mean_reward"]


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
                with atomic_write(path) as temporary:
                    temporary.write_bytes(model)
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
