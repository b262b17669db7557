"""The best model of a run: which evaluation found it, its file, and its clips."""

from contextlib import closing
from typing import Any

from rlher.core.console import warn
from rlher.core.errors import RunError, UserError
from rlher.core.rng import preserve_rng_state
from rlher.core.writing import write_bytes
from rlher.envs.make import make_env
from rlher.evaluation.evaluations_csv import EvaluationRows
from rlher.evaluation.models import SavedModel
from rlher.evaluation.rollout import play_episodes
from rlher.run.run_folder import RunFolder

CLIP_EPISODES = 2
"""Episodes of a clip: the first ones of the evaluation that found the model."""


def best_row(rows: EvaluationRows) -> dict[str, Any] | None:
    """Return the row with the highest success rate; ties go to the higher return, then to the later row."""
    return max(reversed(rows), key=lambda row: (row["success_rate"], row["mean_reward"]), default=None)


class BestModel:
    """The best model of a run, in memory and in the run folder.

    :ivar content: content of the model's file; None before the first evaluation.
    """

    def __init__(self, run: RunFolder) -> None:
        self.content: bytes | None = None
        self._run = run
        self._records_clips = run.config.record
        """Whether clips are recorded: the config says so, and no recording has failed."""

    def keep_if_best(self, rows: EvaluationRows, content: bytes) -> None:
        """Keep the model of the last row, and record a clip, if this row is the best."""
        if rows[-1] is best_row(rows):
            self.keep(content)
            self._record_clip(rows[-1]["timesteps"])

    def keep(self, content: bytes) -> None:
        """Keep a model, and write its file."""
        self.content = content
        self.write()

    def write(self) -> None:
        """Write the file. If there is no model yet, delete the file, which may belong to steps that are done again."""
        path = self._run.model_path("best")
        if self.content is not None:
            write_bytes(path, self.content)
        else:
            path.unlink(missing_ok=True)

    def _record_clip(self, steps: int) -> None:
        """Write ``clips/<steps>.mp4`` if the config says so; warn if this fails."""
        if not self._records_clips:
            return
        from rlher.evaluation.video import record_video  # few runs record clips

        config = self._run.config
        task = config.env.without_training_aids()
        path = self._run.folder / "clips" / f"{steps}.mp4"
        try:
            with (
                preserve_rng_state(),
                closing(make_env(task, render_mode="rgb_array")) as env,
                record_video(path, env, task, CLIP_EPISODES) as video,
            ):
                policy = SavedModel(self._run, "best").load_policy(env)
                seeds = range(config.eval.seed, config.eval.seed + CLIP_EPISODES)
                list(play_episodes(env, policy, seeds, video))
        except (UserError, RunError) as error:
            warn(f"no clips are recorded: {error}")
            self._records_clips = False
