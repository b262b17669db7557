"""The best model of a run: which evaluation found it, and its clip."""

from contextlib import closing
from typing import Any

from rlher.core.console import warn
from rlher.core.errors import RunError, UserError
from rlher.core.rng import preserve_rng_state
from rlher.envs.make import make_env
from rlher.evaluation.agents import TrainedAgent
from rlher.evaluation.evaluations_csv import EvaluationRows
from rlher.evaluation.rollout import play_episodes
from rlher.run.run_folder import RunFolder

CLIP_EPISODES = 2
"""Episodes of a clip: the first ones of the evaluation that found the model."""


def best_row(rows: EvaluationRows) -> dict[str, Any] | None:
    """Return the row with the highest success rate; ties go to the higher return, then to the later row."""
    return max(reversed(rows), key=lambda row: (row["success_rate"], row["mean_reward"]), default=None)


def record_clip(run: RunFolder, steps: int) -> bool:
    """Write ``clips/<steps>.mp4`` of the best model, which was found then; warn and return False if that fails."""
    from rlher.evaluation.video import record_video  # few runs record clips

    config = run.config
    task = config.env.without_training_aids()
    path = run.folder / "clips" / f"{steps}.mp4"
    try:
        with (
            preserve_rng_state(),
            closing(make_env(task, render_mode="rgb_array")) as env,
            record_video(path, env, task, CLIP_EPISODES) as video,
        ):
            policy = TrainedAgent(run, "best").load_task_policy(env)
            seeds = range(config.eval.seed, config.eval.seed + CLIP_EPISODES)
            list(play_episodes(env, policy, seeds, video))
    except (UserError, RunError) as error:
        warn(f"no clips are recorded: {error}")
        return False
    return not video.failed
