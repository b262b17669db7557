"""Config keys of `rlher train`: hindsight, update step, evaluation, checkpoints and the run itself."""

from dataclasses import dataclass, field

from rlher.config.algorithms import OffPolicyConfig
from rlher.config.environment import EnvConfig
from rlher.config.key import key
from rlher.her.choices import KEY_TO_GOAL_STRATEGY, PRIORITIES, RELABEL_DONE


@dataclass
class HerConfig:
    """Hindsight: which goals replace the desired one, and what that does to reward and done."""

    n_sampled_goal: int = key(4, "virtual transitions per real one; 0: plain replay", low=0)
    goal_selection_strategy: str = key("future", "where goals come from", choices=tuple(KEY_TO_GOAL_STRATEGY))
    goal_mix: dict[str, float] = key({}, "weights of the strategies in a mix, and of `original`; empty: the default")
    n_steps: int = key(1, "steps a return sums up", low=1)
    priority: str = key("uniform", "which transitions are drawn", choices=tuple(PRIORITIES))
    relabel_done: str = key("auto", "done of a virtual transition", choices=RELABEL_DONE)
    keep_goal_independent_reward: bool = key(True, "carry over reward that no goal explains, such as a crash penalty")
    copy_info_dict: bool = key(False, "hand each step's info to compute_reward")


@dataclass
class EngineConfig:
    """The update step: the project's own or Stable-Baselines3's, which do the same at different speed."""

    name: str = key("rlher", "whose update step", choices=("rlher", "sb3"))
    compile: str = key("auto", "torch.compile; auto: where the run is long enough", choices=("auto", "on", "off"))
    precision: str = key("float32", "of the losses; weights stay float32", choices=("float32", "bf16"))


@dataclass
class NormalizeConfig:
    """Running normalisation of observations; both goals share one normaliser (OpenAI baselines)."""

    enabled: bool = key(True, "normalise observations")
    clip: float = key(5.0, "bound of a normalised entry, in standard deviations", low=0.1)


@dataclass
class EvalConfig:
    """Evaluation in training and at the end."""

    freq: int | None = key(None, "steps between evaluations; null: a twentieth of the run", low=1)
    episodes: int = key(20, "episodes of each", low=1)
    final_episodes: int = key(100, "episodes of the last one, on starts no model was chosen by", low=1)
    seed: int = key(10_000, "seed of the first evaluation episode; the next ones count up", low=0)
    keep_models: bool = key(False, "keep the model of every evaluation, as models/<steps>.zip")


@dataclass
class CheckpointConfig:
    """What a run that was killed, or stopped, is resumed from."""

    every: int | None = key(10_000, "steps between checkpoints, at which running episodes are cut; null: none", low=1)
    minutes: float | None = key(10.0, "minutes after which one is written in between, cutting nothing", low=0)


@dataclass
class TrainConfig:
    """`rlher train`."""

    algo: OffPolicyConfig = field(default_factory=OffPolicyConfig, metadata={"text": "algorithm"})
    env: EnvConfig = field(default_factory=EnvConfig, metadata={"text": "environment"})
    her: HerConfig = field(default_factory=HerConfig, metadata={"text": "hindsight"})
    engine: EngineConfig = field(default_factory=EngineConfig, metadata={"text": "update step"})
    seed: int = key(0, "seed of everything random", low=0)
    total_timesteps: int = key(100_000, "environment steps, all environments counted", low=1)
    n_envs: int = key(1, "environments stepped together", low=1)
    vec_env: str = key("auto", "one process or many; auto: many from two on", choices=("auto", "dummy", "subproc"))
    device: str = key("auto", "torch device: auto, cpu, cuda, ...")
    threads: int | None = key(None, "torch threads; null: measured", low=1)
    normalize: NormalizeConfig = field(default_factory=NormalizeConfig, metadata={"text": "normalisation"})
    eval: EvalConfig = field(default_factory=EvalConfig, metadata={"text": "evaluation"})
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig, metadata={"text": "checkpoints"})
    recipe: str | None = key(None, "hyperparameters of the pair: a name or a YAML file; null: those in hyperparams/")
    init_from: str | None = key(None, "run folder whose last model is the starting point")
    resume: str | None = key(None, "run folder to go on with, or latest; it has its own config")
    logs: str = key("logs", "folder of all runs")
    dry_run: bool = key(False, "a few hundred steps, to see that everything fits")
    progress: bool = key(True, "progress bar, where stderr is a terminal")
    tensorboard: bool = key(True, "write TensorBoard event files")
    logger: str = key(
        "none", "service that is told as well, each an extra to install", choices=("none", "wandb", "mlflow")
    )
    record: bool = key(False, "film each new best model, as clips/<steps>.mp4")
    json: bool = key(False, "print the result as JSON on stdout")
