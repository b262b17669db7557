"""Config keys of `rlher collect`."""

from dataclasses import dataclass

from rlher.config.environment import EnvConfig
from rlher.config.key import MAX_EPISODES, MAX_SEED, experiment_key, output_key
from rlher.config.saved_model import ReplayConfig


@dataclass
class CollectConfig(ReplayConfig):
    """Config keys of `rlher collect`."""

    env: EnvConfig | None = experiment_key(
        None, "environment of a controller, or of a Stable-Baselines3 zip; a run folder has its own"
    )
    controller: str | None = experiment_key(
        None,
        "scripted: the one that comes with rlher; or <module>:<function> of your own; null: scripted, if env is set",
    )
    episodes: int = output_key(100, "episodes to write", low=1, high=MAX_EPISODES)
    successes_only: bool = output_key(False, "write only episodes that end in success")
    output: str = output_key(
        "demos", "dataset to write, if it ends with a version such as demos/pick-v0; else a folder of datasets"
    )
    seed: int = experiment_key(2_000_000, "seed of the first episode; the next ones count up", low=0, high=MAX_SEED)
