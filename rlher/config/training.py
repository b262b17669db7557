"""Config keys of `rlher train`: update step, evaluation, checkpoints and the run itself."""

from dataclasses import Field, dataclass

from rlher.config.algorithms import ALGORITHMS, OffPolicyConfig
from rlher.config.environment import ENV_SCHEMAS, EnvConfig
from rlher.config.her import HerConfig
from rlher.config.key import Purpose, dotted_keys, key, section


@dataclass
class EngineConfig:
    """The update step: the project's own, or the equivalent slower one of Stable-Baselines3."""

    name: str = key("rlher", "implementation of the update step", choices=("rlher", "sb3"), affects="experiment")
    compile: str = key(
        "auto", "torch.compile; auto: if the run is long enough", choices=("auto", "on", "off"), affects="machine"
    )
    precision: str = key(
        "float32",
        "precision of the losses; weights stay float32",
        choices=("float32", "bf16"),
        affects="experiment",
    )


@dataclass
class NormalizeConfig:
    """Running normalisation of observations; both goals share one normaliser (OpenAI baselines)."""

    enabled: bool = key(True, "normalise observations", affects="experiment")
    clip: float = key(5.0, "bound of a normalised value, in standard deviations", low=0.1, affects="experiment")


@dataclass
class EvalConfig:
    """Evaluation during and after training. It does not change what is learnt."""

    freq: int | None = key(
        None,
        "steps between evaluations; null: a twentieth of the run",
        low=1,
        affects="experiment",
        ignored_by=["grouping"],
    )
    episodes: int = key(20, "episodes per evaluation", low=1, affects="experiment", ignored_by=["grouping"])
    final_episodes: int = key(
        100,
        "episodes of the final evaluation, on seeds that are not used to choose a model",
        low=1,
        affects="experiment",
        ignored_by=["grouping", "resume"],
    )
    seed: int = key(
        10_000,
        "seed of the first evaluation episode; the next ones count up",
        low=0,
        affects="experiment",
        ignored_by=["grouping", "recipe"],
    )
    keep_models: bool = key(False, "keep the model of every evaluation, as models/<steps>.zip", affects="output")


@dataclass
class CheckpointConfig:
    """Checkpoints, from which a killed or stopped run resumes."""

    every: int | None = key(
        10_000,
        "steps between checkpoints, which truncate running episodes; null: none",
        low=1,
        affects="experiment",
        ignored_by=["recipe"],
    )
    minutes: float | None = key(
        10.0, "minutes between additional checkpoints, which truncate nothing; null: none", low=0, affects="output"
    )


@dataclass
class TrainConfig:
    """Config keys of `rlher train`."""

    algo: OffPolicyConfig = section(OffPolicyConfig, "algorithm")
    env: EnvConfig = section(EnvConfig, "environment")
    her: HerConfig = section(HerConfig, "hindsight")
    engine: EngineConfig = section(EngineConfig, "update step")
    seed: int = key(0, "seed of all random numbers", low=0, affects="experiment", ignored_by=["grouping", "recipe"])
    total_timesteps: int = key(
        100_000,
        "environment steps, summed over all environments",
        low=1,
        affects="experiment",
        ignored_by=["grouping", "resume"],
    )
    n_envs: int = key(1, "number of environments", low=1, affects="experiment")
    vec_env: str = key(
        "auto",
        "environments in this process or in subprocesses; auto: subproc if n_envs > 1",
        choices=("auto", "dummy", "subproc"),
        affects="machine",
    )
    device: str = key("auto", "torch device: auto, cpu, cuda, ...", affects="machine")
    threads: int | None = key(None, "torch threads; null: chosen by a short measurement", low=1, affects="machine")
    normalize: NormalizeConfig = section(NormalizeConfig, "normalisation")
    eval: EvalConfig = section(EvalConfig, "evaluation")
    checkpoint: CheckpointConfig = section(CheckpointConfig, "checkpoints")
    recipe: str | None = key(
        None,
        "tuned hyperparameters: a name in hyperparams/ or a YAML file; null: none; default: <algo>-<env>",
        affects="output",
    )
    init_from: str | None = key(
        None, "run folder whose last model is the starting point", affects="experiment", ignored_by=["recipe"]
    )
    resume: str | None = key(
        None, "run folder to resume with its recorded config, or latest", affects="experiment", ignored_by=["recipe"]
    )
    logs: str = key("logs", "folder of all runs", affects="output")
    dry_run: bool = key(
        False, "train a few hundred steps, to test the config", affects="experiment", ignored_by=["recipe"]
    )
    progress: bool = key(True, "show a progress bar if stderr is a terminal", affects="output")
    tensorboard: bool = key(True, "write TensorBoard event files", affects="output")
    logger: str = key(
        "none",
        "tracking service to log to; each needs pip install 'rlher[<name>]'",
        choices=("none", "wandb", "mlflow"),
        affects="output",
    )
    record: bool = key(False, "record a video of each new best model, as clips/<steps>.mp4", affects="output")
    json: bool = key(False, "print the result as JSON on stdout", affects="output")


def run_keys() -> dict[str, Field]:
    """Return the dotted keys of a training run, those of every algorithm and environment included."""
    found = dotted_keys(TrainConfig)
    for algorithm in ALGORITHMS.values():
        found |= dotted_keys(algorithm.config, "algo.")
    for env in ENV_SCHEMAS.values():
        found |= dotted_keys(env, "env.")
    return found


def keys_ignored_by(purpose: Purpose) -> tuple[str, ...]:
    """Return the dotted keys of a training run that are ignored when grouping, writing a recipe or resuming."""
    return tuple(name for name, item in run_keys().items() if purpose in item.metadata["ignored_by"])
