"""The algorithms: their classes, and their config keys with defaults.

To add an algorithm, write a class in ``rlher/algos/``, and add a config dataclass and an entry of ``OWN_ALGORITHMS``
here. The value of a key is passed to the Stable-Baselines3 constructor as the argument of the same name, unless the
key declares another ``argument_of=``. This module does not import torch.
"""

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from rlher.config.key import keys_of, param, with_default
from rlher.config.plugins import Registry
from rlher.core.errors import UserError
from rlher.core.nested import leaves
from rlher.core.user_code import import_object

if TYPE_CHECKING:
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm as SB3OffPolicyAlgorithm

SCHEDULES = ("constant", "linear", "constant_then_linear")
"""Values of ``algo.learning_rate_schedule`` and ``algo.target_policy_noise_schedule``."""

ACTIVATIONS = {name.lower(): f"torch.nn:{name}" for name in ("ReLU", "Tanh", "ELU", "GELU", "SiLU")}
"""Classes by the value of ``algo.activation``."""


@dataclass(frozen=True)
class Algorithm:
    """An entry of ``ALGORITHMS``.

    :param config: dataclass of the algorithm's config keys.
    :param model_class: ``module:class`` of the model, with the fast update if the algorithm has one.
    :param sb3_class: ``module:class`` in Stable-Baselines3 or sb3-contrib.
    :param actions: kind of action space, ``"discrete"`` or ``"continuous"``.
    """

    config: "type[OffPolicyConfig]"
    model_class: str
    sb3_class: str
    actions: str

    @property
    def description(self) -> str:
        """One line for ``rlher list algos``."""
        return (self.config.__doc__ or "").splitlines()[0].rstrip(".")

    def load(self) -> "type[SB3OffPolicyAlgorithm]":
        """Import the class of the model."""
        return resolve_name(self.model_class)


@dataclass
class OffPolicyConfig:
    """Keys of every off-policy algorithm."""

    name: str = param("", "algorithm; `rlher list algos` lists them", argument_of="")
    learning_rate: float = param(1e-3, "learning rate of Adam", low=0, argument_of="")
    learning_rate_schedule: str = param(
        "constant",
        "linear: falls to 0; constant_then_linear: in the last quarter",
        choices=SCHEDULES,
        argument_of="",
        names_code="module:name",
    )
    weight_decay: float = param(
        0.0, "weight decay of the optimizer, which is then AdamW; 0: Adam", low=0, argument_of=""
    )
    buffer_size: int = param(1_000_000, "capacity of the replay buffer in transitions", low=1)
    learning_starts: int | None = param(
        None, "steps before the first update, an episode or more; null: 1000 or a quarter of a run", low=0
    )
    batch_size: int = param(256, "transitions per update", low=1)
    gamma: float = param(0.95, "discount factor", low=0, high=1)
    train_freq: int = param(1, "steps of the VecEnv between updates; evaluations and Ctrl-C wait for them", low=1)
    gradient_steps: int | None = param(None, "updates per rollout; null: one per stored transition", low=1)
    tau: float = param(0.05, "Polyak update coefficient of the target network", low=0, high=1)
    target_q_bounds: Any = param(
        "auto", "[low, high] bounds of the target values; auto: from the rewards; null: none", argument_of=""
    )
    net_arch: list[int] | dict[str, list[int]] = param(
        [256, 256], "hidden layers; {pi: [64], qf: [256]}", argument_of="policy"
    )
    activation: str = param(
        "relu", "activation function", choices=tuple(ACTIVATIONS), argument_of="", names_code="module:name"
    )
    policy_kwargs: dict[str, Any] = param(
        {}, "more policy arguments; classes as module:Class", argument_of="", names_code="any"
    )
    kwargs: dict[str, Any] = param(
        {}, "more keyword arguments of the Stable-Baselines3 class", argument_of="", names_code="any"
    )
    model_class: str | None = param(None, "your subclass, as algo=module:Class", argument_of="", names_code="any")

    @property
    def label(self) -> str:
        """Name of the algorithm, or of the user's own class. Run folders and learning curves are named after it."""
        return self.model_class.rpartition(":")[2] if self.model_class else self.name

    def validate(self) -> None:
        """Raise UserError if a hidden layer is empty."""
        if any(size < 1 for size in leaves(self.net_arch)):
            raise UserError(f"algo.net_arch={self.net_arch} is invalid; each size must be at least 1.")


@dataclass
class ActorCriticConfig(OffPolicyConfig):
    """Keys of the algorithms with continuous actions and Q critics."""

    n_critics: int = param(2, "number of critics", low=1, argument_of="policy")
    action_noise: float = param(
        0.0, "standard deviation of the exploration noise; actions span [-1, 1]", low=0, argument_of=""
    )
    layer_norm_critics: bool = param(False, "layer normalisation in the critics", argument_of="")
    random_action: float = param(0.0, "share of uniformly random actions in training", low=0, high=1)
    random_action_hold: int = param(1, "steps that a random action is held, in learning_starts as well", low=1)


@dataclass
class DQNConfig(OffPolicyConfig):
    """Deep Q-network (Mnih et al. 2015), used for the HER paper's bit flipping."""

    batch_size: int = with_default(OffPolicyConfig, "batch_size", 128)
    gamma: float = with_default(OffPolicyConfig, "gamma", 0.98)
    net_arch: list[int] | dict[str, list[int]] = with_default(OffPolicyConfig, "net_arch", [256])
    tau: float = with_default(OffPolicyConfig, "tau", 1.0)
    target_update_interval: int = param(500, "steps between updates of the target network", low=1)
    exploration_fraction: float = param(0.5, "fraction of the run over which epsilon is reduced", low=0, high=1)
    exploration_initial_eps: float = param(1.0, "probability of a random action at the start", low=0, high=1)
    exploration_final_eps: float = param(0.05, "probability of a random action in the rest of the run", low=0, high=1)
    max_grad_norm: float = param(10.0, "maximum norm of the gradient", low=0)


@dataclass
class SACConfig(ActorCriticConfig):
    """Soft actor-critic (Haarnoja et al. 2018)."""

    ent_coef: str = param("auto_0.05", "entropy coefficient: a number, auto, or auto_<initial value>")
    target_entropy: str = param("auto", "target entropy of ent_coef=auto: a number or auto")


@dataclass
class DeterministicConfig(ActorCriticConfig):
    """Keys of the algorithms whose actor is deterministic."""

    action_noise: float = with_default(ActorCriticConfig, "action_noise", 0.2)
    action_l2: float = param(0.0, "weight of the mean squared action in the actor's loss", low=0)


@dataclass
class DDPGConfig(DeterministicConfig):
    """Deep deterministic policy gradient (Lillicrap et al. 2016), used for the HER paper's robot tasks."""

    n_critics: int = with_default(DeterministicConfig, "n_critics", 1)


@dataclass
class TD3Config(DeterministicConfig):
    """Twin delayed DDPG (Fujimoto et al. 2018)."""

    policy_delay: int = param(2, "critic updates per actor update", low=1)
    target_policy_noise: float = param(0.2, "standard deviation of the target policy smoothing noise", low=0)
    target_policy_noise_schedule: str = param(
        "constant", "noise over the run; linear ends at 0", choices=SCHEDULES, names_code="module:name"
    )
    target_noise_clip: float = param(0.5, "bound of the target policy smoothing noise", low=0)


@dataclass
class TQCConfig(SACConfig):
    """Truncated quantile critics (Kuznetsov et al. 2020)."""

    n_quantiles: int = param(25, "quantiles per critic", low=1, argument_of="policy")
    top_quantiles_to_drop_per_net: int = param(2, "largest quantiles per critic that the target leaves out", low=0)

    def validate(self) -> None:
        """Raise UserError if the target leaves out all quantiles."""
        super().validate()
        dropped, total = self.top_quantiles_to_drop_per_net, self.n_quantiles
        if dropped >= total:
            raise UserError(f"algo.top_quantiles_to_drop_per_net={dropped} leaves none of algo.n_quantiles={total}.")


def algorithm_of(path: str) -> str:
    """Return the name of the algorithm that the user's own class extends.

    :param path: ``module:Class``.
    :raises UserError: the class cannot be imported, or does not extend an algorithm.
    """
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm as SB3OffPolicyAlgorithm

    names = {algorithm.load(): name for name, algorithm in ALGORITHMS.items()}
    for base in import_object("algo", path, SB3OffPolicyAlgorithm).__mro__:
        if base in names:
            return names[base]
    classes = ", ".join(f"rlher.algos.{model.__name__}" for model in names)
    raise UserError(f"algo={path} extends no algorithm; use a subclass of {classes}.")


def algorithms_with_key(key: str) -> list[str]:
    """Return the names of the algorithms that have a config key, such as ``algo.policy_delay``."""
    return [name for name, algorithm in ALGORITHMS.items() if key in keys_of(algorithm.config, "algo.")]


OWN_ALGORITHMS = {
    "dqn": Algorithm(DQNConfig, "rlher.algos.dqn:DQN", "stable_baselines3:DQN", "discrete"),
    "sac": Algorithm(SACConfig, "rlher.algos.sac:SAC", "stable_baselines3:SAC", "continuous"),
    "td3": Algorithm(TD3Config, "rlher.algos.td3:TD3", "stable_baselines3:TD3", "continuous"),
    "ddpg": Algorithm(DDPGConfig, "rlher.algos.td3:DDPG", "stable_baselines3:DDPG", "continuous"),
    "tqc": Algorithm(TQCConfig, "rlher.algos.tqc:TQC", "sb3_contrib:TQC", "continuous"),
}

ALGORITHMS = Registry("ALGORITHMS", OWN_ALGORITHMS)
"""Every algorithm, by the name that ``algo=`` takes."""
