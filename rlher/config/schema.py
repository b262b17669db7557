"""Every key of every verb: its type, its default, what it means and what it may be.

The dataclasses below are the schemas of the Hydra tree in ``conf/``: Hydra refuses a wrong key or type against them,
:func:`check` refuses a value out of range, and ``rlher <verb> --help`` prints their texts. Nothing here imports torch.
"""

import functools
import math
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from rlher.core.errors import UserError, closest
from rlher.her.choices import KEY_TO_GOAL_STRATEGY, RELABEL_DONE

ConfigT = TypeVar("ConfigT")


def key(
    default: Any,
    text: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare one config key: its default, its one-line text, and the closed range or choices it must lie in."""
    limits = {"text": text, "low": low, "high": high, "choices": choices}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=limits)
    return field(default=default, metadata=limits)


# --------------------------------------------------------------------------------------------- algorithms


@dataclass
class OffPolicyConfig:
    """What every off-policy algorithm takes; names are those of the Stable-Baselines3 constructors."""

    name: str = key("", "algorithm, a name of `rlher list algos`")
    learning_rate: float = key(3e-4, "learning rate of Adam", low=0)
    learning_rate_schedule: str = key("constant", "over the run", choices=("constant", "linear"))
    buffer_size: int = key(1_000_000, "transitions the replay buffer holds", low=1)
    learning_starts: int | None = key(None, "steps before the first update; null: one episode", low=0)
    batch_size: int = key(256, "transitions an update", low=1)
    gamma: float = key(0.95, "discount factor", low=0, high=1)
    train_freq: int = key(1, "vectorised environment steps between two rounds of updates", low=1)
    gradient_steps: int | None = key(None, "updates a round; null: one per stored transition", low=0)
    net_arch: list[int] = key([256, 256], "hidden layers", low=1)
    activation: str = key("relu", "between hidden layers", choices=("relu", "tanh", "elu", "gelu", "silu"))
    kwargs: dict[str, Any] = key({}, "further keyword arguments of the Stable-Baselines3 class")


@dataclass
class TargetConfig:
    """What the algorithms with a target network share."""

    tau: float = key(0.05, "share of the online network mixed into the target network", low=0, high=1)
    target_q_bounds: Any = key("auto", "[low, high] target values are clamped to; auto: from rewards; null: off")


@dataclass
class ActorCriticConfig(OffPolicyConfig):
    """What the algorithms with a continuous action and Q critics share."""

    n_critics: int = key(2, "Q networks", low=1)
    action_noise: float = key(0.0, "standard deviation of exploration noise; actions span [-1, 1]", low=0)


@dataclass
class EnsembleConfig(ActorCriticConfig):
    """What our update step adds to the critics."""

    target_critics: int | None = key(None, "critics, drawn at random, a target is the least of; null: all", low=1)
    layer_norm_critics: bool = key(False, "normalise the critics' hidden layers")


@dataclass
class DeterministicConfig(EnsembleConfig):
    """What our update step adds to the algorithms with a deterministic actor, after OpenAI baselines."""

    random_action: float = key(0.0, "probability of a uniform action, beside the noise", low=0, high=1)
    action_l2: float = key(0.0, "weight of the mean squared action in the actor's loss", low=0)


@dataclass
class EntropyConfig:
    """What the maximum-entropy algorithms share."""

    ent_coef: str = key("auto", "entropy coefficient: a number, auto, or auto_<initial value>")
    target_entropy: str = key("auto", "target of the automatic coefficient: a number or auto")


@dataclass
class SACConfig(EntropyConfig, TargetConfig, EnsembleConfig):
    """Soft actor-critic (Haarnoja et al. 2018)."""


@dataclass
class TQCConfig(SACConfig):
    """Truncated quantile critics (Kuznetsov et al. 2020)."""

    n_quantiles: int = key(25, "quantiles a critic", low=1)
    top_quantiles_to_drop_per_net: int = key(2, "quantiles dropped from the target, per critic", low=0)


@dataclass
class CrossQConfig(EntropyConfig, ActorCriticConfig):
    """CrossQ: batch normalisation instead of a target network (Bhatt et al. 2024)."""

    policy_delay: int = key(3, "critic updates per actor update", low=1)


@dataclass
class TD3Config(TargetConfig, DeterministicConfig):
    """Twin delayed DDPG (Fujimoto et al. 2018)."""

    policy_delay: int = key(2, "critic updates per actor update", low=1)
    target_policy_noise: float = key(0.2, "standard deviation of the target policy's smoothing noise", low=0)
    target_noise_clip: float = key(0.5, "bound of that noise", low=0)


@dataclass
class DDPGConfig(TargetConfig, DeterministicConfig):
    """Deep deterministic policy gradient (Lillicrap et al. 2016), the algorithm of the HER paper's robot tasks."""

    n_critics: int = key(1, "Q networks", low=1)


@dataclass
class DQNConfig(TargetConfig, OffPolicyConfig):
    """Deep Q-network (Mnih et al. 2015), the algorithm of the HER paper's bit flipping."""

    target_update_interval: int = key(500, "steps between two copies to the target network", low=1)
    exploration_fraction: float = key(0.5, "share of the run over which epsilon falls", low=0, high=1)
    exploration_initial_eps: float = key(1.0, "probability of a random action at the start", low=0, high=1)
    exploration_final_eps: float = key(0.05, "and after exploration_fraction", low=0, high=1)
    max_grad_norm: float = key(10.0, "gradient clipping", low=0)


@dataclass
class QRDQNConfig(DQNConfig):
    """DQN with quantile regression (Dabney et al. 2018)."""

    n_quantiles: int = key(50, "quantiles", low=1)


# --------------------------------------------------------------------------------------------- the rest of a run


@dataclass
class EnvConfig:
    """An environment and what the rest of the program must know of it; null means: probe it."""

    id: str = key("", "registered id, as gymnasium.make takes it")
    name: str = key("", "name in the run folder; empty: the id")
    description: str = key("", "one line for `rlher list envs`")
    actions: str | None = key(None, "kind of its actions", choices=("continuous", "discrete"))
    modules: list[str] = key([], "packages imported first, because they register environments")
    kwargs: dict[str, Any] = key({}, "keyword arguments of gymnasium.make")
    max_episode_steps: int | None = key(None, "steps after which an episode is truncated", low=1)
    success_key: str | None = key(None, "key of `info` that says success")
    crash_key: str | None = key(None, "key of `info` that says a crash")
    extra_reward: bool = key(False, "step's reward has a part no goal explains, such as the cost of an action")
    ends_on_success: bool | None = key(None, "whether success terminates the episode")
    success_reward: float | None = key(None, "compute_reward at or above which the goal counts as reached")
    reward_range: list[float | None] | None = key(None, "[low, high] of one step's reward, null where unknown")
    step_timeout: float | None = key(
        None, "seconds a step or reset may take in a process of its own; null: 300, 0: any time", low=0
    )
    max_restarts: int = key(
        5, "fresh processes in the place of dead or hanging ones, with no episode finished in between", low=0
    )
    extra: str | None = key(None, "optional dependency it comes with: pip install rlher[<extra>]")


@dataclass
class BitFlippingConfig(EnvConfig):
    """Our bit flipping, section 4.1 of the HER paper."""

    n_bits: int = key(15, "bits, and steps an episode", low=1)
    continuous: bool = key(False, "a Box action, whose largest entry names the bit, for SAC and its kin")
    fixed_goal: bool = key(False, "all ones as the goal, as SB3's BitFlippingEnv; false: drawn each episode")


@dataclass
class HerConfig:
    """Hindsight: which goals replace the desired one, and what that does to reward and done."""

    n_sampled_goal: int = key(4, "virtual transitions per real one; 0: plain replay", low=0)
    goal_selection_strategy: str = key("future", "where goals come from", choices=tuple(KEY_TO_GOAL_STRATEGY))
    goal_mix: dict[str, float] = key({}, "weights of the strategies in a mix, and of `original`; empty: the default")
    n_steps: int = key(1, "steps a return sums up", low=1)
    priority: str = key("uniform", "which transitions are drawn", choices=("uniform", "energy", "td_error"))
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


@dataclass
class OptimizeConfig(TrainConfig):
    """`rlher optimize`: a training run's keys, for every trial, and those of the search."""

    n_trials: int = key(100, "trials of the study in all, whoever runs them", low=1)
    search_space: str = key("her", "(or space) her, her_wide, algo, full, several joined by +, or a YAML file")
    objective: str = key("success", "what is maximised; multi: success and steps", choices=("success", "auc", "multi"))
    n_seeds: int = key(2, "training runs a trial, one seed each", low=1)
    sampler: str = key("tpe", "how trials are proposed", choices=("tpe", "random", "cmaes"))
    pruner: str = key("median", "which trials are cut short", choices=("median", "hyperband", "none"))
    study_name: str | None = key(None, "name of the study; null: made of algorithm, environment and space")
    storage: str | None = key(None, "sqlite:///..., postgresql://..., mysql://...; null: a journal file in `logs`")
    heartbeat: int = key(60, "seconds between signs of life in a database; after twice that a worker is dead", low=1)
    workers: int = key(1, "processes of this command", low=1)
    launcher: str = key(
        "local", "where workers run: processes here, or tasks of a Ray cluster", choices=("local", "ray")
    )
    ray_address: str | None = key(None, "head of the Ray cluster, host:port; null: a cluster of this machine alone")
    rerun_best: int = key(3, "best trials that are run again at the end", low=1)
    rerun_seeds: int = key(5, "fresh seeds of each, and of trial 0", low=2)
    progress: bool = key(True, "a table while it runs; a line per trial where stderr is no terminal")


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


@dataclass
class CurvesConfig:
    """What `rlher plot`, `rlher compare` and `rlher report` share."""

    runs: list[str] = key([], "run folders, or folders of them; none: `logs`")
    logs: str = key("logs", "folder of all runs")
    by: list[str] = key([], "keys that make groups, such as her.n_sampled_goal; none: algo, her and what else differs")


@dataclass
class PlotConfig(CurvesConfig):
    """`rlher plot`."""

    x: str = key("steps", "what to draw over", choices=("steps", "wall", "updates"))
    y: str = key("success_rate", "column of evaluations.csv to draw")
    output: list[str] = key([], "pictures to write, .png, .pdf or .svg; none: <logs>/<y>.png and .pdf")
    csv: str | None = key(None, "file for the drawn numbers")
    show: bool = key(False, "open a window as well")


@dataclass
class CompareConfig(CurvesConfig):
    """`rlher compare`."""

    format: str = key("markdown", "of the tables", choices=("markdown", "csv", "latex"))


@dataclass
class ReportConfig(CurvesConfig):
    """`rlher report`."""

    runs: list[str] = key([], "run folders, folders of them, or a study of `rlher optimize`; none: `logs`")
    output: str | None = key(None, "page to write, .html; null: <logs>/report.html")
    title: str | None = key(None, "of the page; null: its environments")


@dataclass
class CheckConfig:
    """`rlher check`."""

    env: EnvConfig = field(default_factory=EnvConfig, metadata={"text": "environment"})
    seed: int = key(0, "seed of the episodes played", low=0)
    json: bool = key(False, "print the findings as JSON on stdout")


ALGO_SCHEMAS: dict[str, type[OffPolicyConfig]] = {
    "dqn": DQNConfig,
    "qrdqn": QRDQNConfig,
    "sac": SACConfig,
    "td3": TD3Config,
    "ddpg": DDPGConfig,
    "tqc": TQCConfig,
    "crossq": CrossQConfig,
}
ENV_SCHEMAS: dict[str, type[EnvConfig]] = {"any": EnvConfig, "bit_flipping": BitFlippingConfig}
VERB_SCHEMAS: dict[str, type] = {
    "train": TrainConfig,
    "optimize": OptimizeConfig,
    "evaluate": EvaluateConfig,
    "enjoy": EnjoyConfig,
    "export": ExportConfig,
    "check": CheckConfig,
    "plot": PlotConfig,
    "compare": CompareConfig,
    "report": ReportConfig,
}


@functools.cache
def register() -> None:
    """Store the schemas where the files of ``conf/`` name them: ``/schema/<verb>``, ``/schema/algo/<name>``, ...

    Once a process, which takes a tenth of a second.
    """
    store = ConfigStore.instance().store
    for name, verb in VERB_SCHEMAS.items():
        store(group="schema", name=name, node=verb)
    for name, algo in ALGO_SCHEMAS.items():
        store(group="schema/algo", name=name, node=algo)
    for name, env in ENV_SCHEMAS.items():
        store(group="schema/env", name=name, node=env)


def to_object(cfg: Any, schema: type[ConfigT]) -> ConfigT:
    """Turn a composed config into its dataclass, every value in range.

    :raises UserError: a value is out of its range, not among its choices, or missing.
    """
    config = OmegaConf.to_object(cfg)
    if not isinstance(config, schema):
        raise TypeError(f"the config was composed as {type(config).__name__}, not {schema.__name__}")
    check(config)
    return config


def check(config: Any, prefix: str = "") -> None:
    """Hold every key of a config dataclass against the limits its :func:`key` declares.

    :raises UserError: naming the key, the value and what would be accepted.
    """
    for item in fields(config):
        value, name = getattr(config, item.name), prefix + item.name
        if is_dataclass(value):
            check(value, name + ".")
        elif value is not None and value is not MISSING:
            _check_value(name, value, item)


def _check_value(name: str, value: Any, item: Field) -> None:
    low, high, choices = (item.metadata.get(limit) for limit in ("low", "high", "choices"))
    if choices and value not in choices:
        raise UserError(f"{name}={value!r} is not one of {', '.join(choices)}{closest(str(value), choices)}.")
    for entry in value if isinstance(value, list) else []:
        if entry is not None:
            _check_value(name, entry, item)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise UserError(f"{name}={value} is not a finite number.")
        if low is not None and value < low:
            raise UserError(f"{name}={value} is too small: it must be at least {low:g}.")
        if high is not None and value > high:
            raise UserError(f"{name}={value} is too large: it must be at most {high:g}.")


def keys(schema: type | Any, prefix: str = "") -> dict[str, Field]:
    """List a schema's keys, dotted, with their fields: what ``--help`` prints and spelling is checked against."""
    found: dict[str, Field] = {}
    for item in fields(schema):
        nested = item.default_factory() if item.default_factory is not MISSING else None
        if is_dataclass(nested):
            found |= keys(nested, f"{prefix}{item.name}.")
        else:
            found[prefix + item.name] = item
    return found
