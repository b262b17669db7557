"""Config keys of the commands that load a trained model: evaluate, enjoy and export."""

from dataclasses import dataclass

from rlher.config.environment import EnvConfig
from rlher.config.key import key


@dataclass
class ModelConfig:
    """Which model of which run is loaded."""

    run: str | None = key(None, "run folder; null: the newest under `logs`", positional=True, affects="output")
    logs: str = key("logs", "folder of all runs", affects="output")
    checkpoint: str = key(
        "auto", "model: best, last, or steps of eval.keep_models; auto: last for evaluate, else best", affects="output"
    )
    json: bool = key(False, "print the result as JSON on stdout", affects="output")


@dataclass
class ReplayConfig(ModelConfig):
    """Keys of the commands that play episodes: `rlher evaluate` and `rlher enjoy`."""

    run: str | None = key(
        None,
        "run folder, or a Stable-Baselines3 zip; null: the newest run under `logs`",
        positional=True,
        affects="output",
    )
    agent: str | None = key(
        None, "agent that comes with rlher, in place of a run; `rlher list agents` lists them", affects="output"
    )
    env: EnvConfig | None = key(
        None, "environment of a Stable-Baselines3 zip; a run folder has its own", affects="experiment"
    )
    trust_pickle: bool = key(
        False, "load a Stable-Baselines3 zip, which executes any code pickled in it", affects="machine"
    )
    seed: int = key(1_000_000, "seed of the first episode; the next ones count up", low=0, affects="experiment")
    deterministic: bool = key(
        True, "deterministic actions; false, or --stochastic: sampled actions", affects="experiment"
    )
    device: str = key("cpu", "torch device", affects="machine")


@dataclass
class ExportConfig(ModelConfig):
    """Config keys of `rlher export`."""

    output: str | None = key(None, "folder to write; null: <run>/export", affects="output")
