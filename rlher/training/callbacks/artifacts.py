"""What a training run keeps where it is asked to: models by steps, and clips of the best ones."""

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
from rlher.training.callbacks.evaluation import Evaluate

EPISODES = 2
"""Of a clip: the first ones of the evaluation that chose the model."""


def keepsakes(run: Run, evaluations: Evaluate, normalizer: GoalNormalize | None) -> list[BaseCallback]:
    """Return the callbacks that keep what the config of a run asks for; they come after ``evaluations``."""
    return [
        *([KeepModels(run, evaluations, normalizer)] if run.config.eval.keep_models else []),
        *([KeepClips(run, evaluations, normalizer)] if run.config.record else []),
    ]


class Keepsake(BaseCallback):
    """Looks where evaluations happen: between two steps, and at the end."""

    def keep(self) -> None:
        """Keep what is new."""
        raise NotImplementedError

    def _on_rollout_start(self) -> None:
        self.keep()

    def _on_training_end(self) -> None:
        self.keep()

    def _on_step(self) -> bool:
        return True


class KeepModels(Keepsake):
    """Write the model of every evaluation to ``models/<steps>.zip``."""

    def __init__(self, run: Run, evaluations: Evaluate, normalizer: GoalNormalize | None) -> None:
        super().__init__()
        self._run, self._evaluations, self._normalizer = run, evaluations, normalizer
        self._seen = 0

    def _on_training_start(self) -> None:
        self._seen = len(self._evaluations.rows)
        self._run.model("0").parent.mkdir(exist_ok=True)

    def keep(self) -> None:
        """Keep the model that was just evaluated."""
        rows = self._evaluations.rows
        if len(rows) > self._seen:
            self._seen = len(rows)
            with warn_on_write_error("a model by steps"):
                model_file.save(self._run.model(str(rows[-1]["timesteps"])), self.model, self._normalizer)  # type: ignore[arg-type]


class KeepClips(Keepsake):
    """Film each new best model, as ``clips/<steps>.mp4``, in an environment of its own.

    The run's random numbers are the same with and without it. Where nothing can be drawn it says so once.
    """

    def __init__(self, run: Run, evaluations: Evaluate, normalizer: GoalNormalize | None) -> None:
        super().__init__()
        self._run, self._evaluations, self._normalizer = run, evaluations, normalizer
        self._filmed: dict[str, Any] | None = None
        self._broken = False

    def _on_training_start(self) -> None:
        self._filmed = self._evaluations.best

    def keep(self) -> None:
        """Film the model where it was just found to be the best."""
        best = self._evaluations.best
        if best is not None and best is not self._filmed and not self._broken:
            self._filmed = best
            with preserve_rng_state():
                self._film(self._run.folder / "clips" / f"{best['timesteps']}.mp4")

    def _film(self, path: Path) -> None:
        config = self._run.config
        policy = make_policy(self.model, self._normalizer)  # type: ignore[arg-type]
        try:
            with (
                closing(make_env(config.env, render_mode="rgb_array")) as env,
                record_video(path, env, config.env, EPISODES) as film,
            ):
                for _ in play_episodes(env, policy, EPISODES, config.eval.seed, film):
                    pass
                self._broken = film.failed
        except (UserError, EnvironmentFault) as error:
            warn(f"no clip: {error}")
            self._broken = True
