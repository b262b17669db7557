"""Config keys of `rlher train`: update step, evaluation, checkpoints and the run itself."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from rlher.config.algorithms import ALGORITHMS, ActorCriticConfig, OffPolicyConfig
from rlher.config.environment import EnvConfig
from rlher.config.her import DemosConfig, HerConfig
from rlher.config.key import MAX_SEED, MAX_STEPS, Key, keys_of, param, param_values, setting
from rlher.core.errors import UserError

TRACKERS = {"wandb": "rlher.training.loggers:WandbTracker"}
"""Classes by the value of ``logger``, which is also the name of their package."""

DEFAULT_N_EVALUATIONS = 20
"""Number of evaluations of a run if ``eval.freq`` is null."""


@dataclass
class EngineConfig:
    """How updates are computed."""

    compile: str = setting("auto", "torch.compile; auto: if the run is long enough", choices=("auto", "on", "off"))
    precision: str = param(
        "auto", "precision of the losses; auto: bf16 where it is faster", choices=("float32", "bf16", "auto")
    )
    overlap: bool = param(True, "update while the environments step")


@dataclass
class NormalizeConfig:
    """Running normalisation of observations; both goals share one normalizer (OpenAI baselines)."""

    enabled: bool = param(True, "normalise observations")
    clip: float = param(5.0, "bound of a normalised value, in standard deviations", low=0.1)


@dataclass
class EvalConfig:
    """Evaluation during and after training. It does not change what is learnt."""

    freq: int | None = param(
        None, f"steps between evaluations; null: {DEFAULT_N_EVALUATIONS} in a run", low=1, may_differ_in_group=True
    )
    episodes: int = param(20, "episodes per evaluation", low=1, may_differ_in_group=True)
    final_episodes: int = param(
        100,
        "episodes of the final evaluation, on other seeds",
        low=1,
        may_differ_in_group=True,
        changeable_on_resume=True,
    )
    seed: int = param(10_000, "first evaluation seed", low=0, high=MAX_SEED, may_differ_in_group=True)
    workers: int | None = setting(None, "processes that evaluate; 0: training waits; null: by free cores", low=0)
    keep_models: bool = setting(False, "keep the model of every evaluation, as models/<steps>.zip")

    @property
    def final_seed(self) -> int:
        """First seed of the final evaluation, so that its episodes are not used to choose a model."""
        return self.seed + 1_000_000


@dataclass
class CheckpointConfig:
    """Checkpoints, from which a killed or stopped run resumes."""

    freq: int | None = param(10_000, "steps between checkpoints; null: no checkpoints", low=1, may_differ_in_group=True)
    minutes: float | None = setting(10.0, "minutes between checkpoints that truncate nothing; null: none", low=0)


@dataclass
class RunConfig:
    """Config keys of a training run."""

    algo: OffPolicyConfig = field(default_factory=OffPolicyConfig)
    env: EnvConfig = field(default_factory=EnvConfig)
    her: HerConfig = field(default_factory=HerConfig)
    demos: DemosConfig = field(default_factory=DemosConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    seed: int = param(0, "seed of all random numbers", low=0, high=MAX_SEED, may_differ_in_group=True)
    total_timesteps: int = param(
        100_000,
        "steps, summed over all environments; 0: learn from demonstrations alone",
        low=0,
        high=MAX_STEPS,
        may_differ_in_group=True,
        changeable_on_resume=True,
    )
    n_envs: int = param(1, "number of environments", low=1, high=10_000)
    vec_env: str = setting(
        "auto", "where environments run; auto: subproc if there are cores for it", choices=("auto", "dummy", "subproc")
    )
    device: str = setting("auto", "torch device: auto, cpu, cuda, ...")
    threads: int | None = setting(None, "torch threads; null: by width, batch, cores; 1: one core", low=1, high=1024)
    normalize: NormalizeConfig = field(default_factory=NormalizeConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    recipe: str | None = setting(None, "name in hyperparams/ or YAML file; null: none; default: <algo>-<env>")
    init_from: str | None = param(None, "run folder or model file to start from")
    callbacks: list[Any] = param(
        [],
        "SB3's callbacks: module:Class or {module:Class: {argument: value}}",
        changeable_on_resume=True,
        names_code="any",
    )
    trust_code: bool = setting(False, "run code that a recipe, environment or config.yaml of somebody else names")
    logs: str = setting("logs", "folder of all runs")
    progress: bool = setting(True, "show a bar or, without a terminal, a line per evaluation; false: warnings only")
    tensorboard: bool = setting(True, "write TensorBoard event files")
    logger: str = setting(
        "none",
        "tracking service; wandb: pip install 'rlher[wandb]'",
        choices=("none", *TRACKERS),
        names_code="module:name",
    )
    record: bool = setting(False, "record a video of each new best model, as clips/<steps>.mp4")
    json: bool = setting(False, "print the result as JSON on stdout")

    def validate(self) -> None:
        """Raise UserError for cloning without demonstrations or actor, and for a run without anything to learn from."""
        demos = self.demos
        cloning = {"demos.bc_weight": demos.bc_weight, "demos.pretrain_updates": demos.pretrain_updates}
        for name, value in cloning.items():
            if value and demos.path is None:
                raise UserError(f"{name}={value} needs demonstrations; add demos=<dataset>.")
            if value and not isinstance(self.algo, ActorCriticConfig):
                raise UserError(f"{name}={value} cannot be used: algo={self.algo.name} has no actor; leave it out.")
        if not (self.total_timesteps or demos.pretrain_updates):
            raise UserError("total_timesteps=0 trains nothing; set demos.pretrain_updates.")

    @property
    def title(self) -> str:
        """Algorithm and environment, as shown to users."""
        return f"{self.algo.label} on {self.env.label}"

    def for_run(self) -> "RunConfig":
        """Return the config of a training run, without the keys that only its command has."""
        return RunConfig(**{field.name: getattr(self, field.name) for field in fields(RunConfig)})

    def for_parallel_run(self) -> "RunConfig":
        """Return the config of a run that is trained beside other runs: with one thread, unless the config sets more.

        Parallel runs slow each other down if each of them uses all cores.
        """
        return replace(self.for_run(), threads=self.threads or 1)

    def defaults(self) -> "RunConfig":
        """Return the defaults of all keys for this algorithm."""
        return RunConfig(algo=type(self.algo)(name=self.algo.name))


@dataclass
class TrainConfig(RunConfig):
    """Config keys of `rlher train`: the keys of each run, and where the runs of a sweep are trained."""

    workers: int = setting(1, "worker processes; rlher train uses them with -m, for runs side by side", low=1)
    launcher: str = setting("local", "workers: local processes or tasks of a Ray cluster", choices=("local", "ray"))
    ray_address: str | None = setting(None, "host:port of a Ray cluster; null: a local one")

    def for_single_run(self) -> RunConfig:
        """Return the config of a training run that is not part of a sweep.

        :raises UserError: the config says where the runs of a sweep are trained.
        """
        defaults = TrainConfig()
        for key in SWEEP_KEYS:
            if getattr(self, key) != getattr(defaults, key):
                raise UserError(f"{key}= needs the runs of a sweep; give several seeds, as in -m seed=0,1,2.")
        return self.for_run()


@dataclass
class ResumeConfig(RunConfig):
    """Config keys of `rlher resume`: the keys of the run."""

    run: str | None = setting(None, "run folder; null: the newest unfinished, else the newest run", positional=True)
    more_timesteps: int = setting(0, "steps to train in addition to total_timesteps", low=0)


SWEEP_KEYS = {field.name for field in fields(TrainConfig)} - {field.name for field in fields(RunConfig)}
"""Keys of a sweep that its runs do not have."""


@functools.cache
def all_run_keys() -> Mapping[str, Key]:
    """Return the keys of :class:`RunConfig` by dotted name, with the ``algo.`` keys of every algorithm."""
    keys = keys_of(RunConfig)
    for algorithm in ALGORITHMS.values():
        keys |= keys_of(algorithm.config, "algo.")
    return keys


def values_kept_on_resume(config: RunConfig) -> dict[str, Any]:
    """Return the values that a resumed run keeps, by dotted key."""
    keys = all_run_keys()
    kept = {name: value for name, value in param_values(config).items() if not keys[name].rules.changeable_on_resume}
    return {**kept, "recipe": config.recipe}
