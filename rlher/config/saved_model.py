"""Config keys of the commands that load a trained model: evaluate, enjoy, export and collect."""

from dataclasses import dataclass

from rlher.config.environment import EnvConfig
from rlher.config.key import MAX_SEED, experiment_key, machine_key, output_key


@dataclass
class ModelConfig:
    """Which model of which run is loaded."""

    run: str | None = output_key(None, "run folder; null: the newest under `logs`", positional=True)
    logs: str = output_key("logs", "folder of all runs")
    checkpoint: str = output_key(
        "auto", "model: best, last, or steps of eval.keep_models; auto: best, or last if there is no best"
    )
    json: bool = output_key(False, "print the result as JSON on stdout")
    trust_code: bool = machine_key(
        False, "run the code that the config.yaml of somebody else's run names, installed or not"
    )


@dataclass
class ReplayConfig(ModelConfig):
    """Keys of the commands that play episodes: `rlher evaluate`, `enjoy` and `collect`."""

    run: str | None = output_key(
        None, "run folder, or a Stable-Baselines3 zip; null: the newest run under `logs`", positional=True
    )
    agent: str | None = output_key(
        None, "agent that comes with rlher, in place of a run; `rlher list agents` lists them"
    )
    env: EnvConfig | None = experiment_key(None, "environment of a Stable-Baselines3 zip; a run folder has its own")
    trust_pickle: bool = machine_key(False, "load a Stable-Baselines3 zip, which executes any code pickled in it")
    seed: int = experiment_key(1_000_000, "seed of the first episode; the next ones count up", low=0, high=MAX_SEED)
    deterministic: bool = experiment_key(True, "deterministic actions; false, or --stochastic: sampled actions")
    device: str = machine_key("cpu", "torch device")


@dataclass
class ExportConfig(ModelConfig):
    """Config keys of `rlher export`."""

    output: str | None = output_key(None, "folder to write; null: <run>/export")
    format: str = output_key(
        "sb3",
        "sb3: Stable-Baselines3 model with script and card; onnx: the policy as an ONNX file as well",
        choices=("sb3", "onnx"),
    )
    push: str | None = output_key(
        None, "repository owner/name of the Hugging Face Hub to upload to; without a name: <algo>-<env>"
    )
