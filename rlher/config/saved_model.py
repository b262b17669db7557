"""Config keys of the commands that load a trained model: evaluate, enjoy and export."""

from dataclasses import dataclass

from rlher.config.environment import EnvConfig
from rlher.config.key import key


@dataclass
class ModelConfig:
    """Which model of which run `rlher evaluate`, `rlher enjoy` and `rlher export` are for."""

    run: str | None = key(None, "run folder; null: the newest under `logs`")
    logs: str = key("logs", "folder of all runs")
    checkpoint: str = key(
        "auto", "which model: best, last, or steps of eval.keep_models; auto: last to evaluate, else best"
    )
    json: bool = key(False, "print the result as JSON on stdout")


@dataclass
class ReplayConfig(ModelConfig):
    """What `rlher evaluate` and `rlher enjoy` share."""

    run: str | None = key(None, "run folder, or an SB3 zip from elsewhere; null: the newest run under `logs`")
    env: EnvConfig | None = key(None, "environment of a zip from elsewhere; a run has its own")
    trust_pickle: bool = key(False, "read a zip from elsewhere, which runs whatever code is pickled in it")
    seed: int = key(1_000_000, "seed of the first episode; the next ones count up", low=0)
    deterministic: bool = key(True, "the policy's mean action; false, or --stochastic: sampled")
    device: str = key("cpu", "torch device")


@dataclass
class EvaluateConfig(ReplayConfig):
    """`rlher evaluate`."""

    episodes: int = key(100, "episodes", low=1)


@dataclass
class EnjoyConfig(ReplayConfig):
    """`rlher enjoy`."""

    episodes: int | None = key(None, "episodes; null: 6, or as many as a grid of several holds", low=1)
    video: str | None = key(None, "file to write, .mp4 or .gif; null: a window, or <run>/enjoy.mp4 without a display")
    grid: str = key("auto", "episodes side by side in a video, such as 3x2; 1x1: one after another; auto: as they fit")
    width: int | None = key(None, "of the video, in pixels; null: as drawn, at most 1920", low=64)
    captions: bool = key(True, "write episode, step, goal and outcome under each picture")
    fps: int | None = key(None, "frames a second; null: the environment's own", low=1)


@dataclass
class ExportConfig(ModelConfig):
    """`rlher export`."""

    output: str | None = key(None, "folder to write; null: <run>/export")
