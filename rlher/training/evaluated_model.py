"""The optional files of each evaluated model: its weights, and a video clip of it."""

import io
from contextlib import closing

from rlher.core.console import warn
from rlher.core.errors import RunError, UserError
from rlher.core.files import write_bytes
from rlher.core.rng import preserve_rng_state
from rlher.envs.make import make_env
from rlher.evaluation.agent import load_model
from rlher.evaluation.rollout import make_policy, play_episodes
from rlher.run.run_folder import RunFolder

CLIP_EPISODES = 2
"""Episodes of a clip: the first ones of the evaluation that found the model."""


def keep_model(run: RunFolder, steps: int, model: bytes) -> None:
    """Write ``models/<steps>.zip``, the content of the file of a model that was saved after these steps."""
    path = run.model_path(str(steps))
    path.parent.mkdir(exist_ok=True)
    write_bytes(path, model)


def record_clip(run: RunFolder, steps: int, model: bytes) -> bool:
    """Write ``clips/<steps>.mp4`` of a model, played in a new environment; warn and return False if that fails."""
    from rlher.evaluation.video import record_video  # few runs record clips

    config, path = run.config, run.folder / "clips" / f"{steps}.mp4"
    try:
        with (
            preserve_rng_state(),
            closing(make_env(config.env, render_mode="rgb_array")) as env,
            record_video(path, env, config.env, CLIP_EPISODES) as video,
        ):
            policy = make_policy(load_model(config, io.BytesIO(model), env))
            for _ in play_episodes(env, policy, CLIP_EPISODES, config.eval.seed, video):
                pass
    except (UserError, RunError) as error:
        warn(f"no clips are recorded: {error}")
        return False
    return not video.failed
