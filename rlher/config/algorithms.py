"""The algorithms: an entry each, with its classes and its config keys.

To add an algorithm: a class in ``rlher/algos/``, a YAML in ``conf/algo/``, and an entry here, which is a config
dataclass with ``@algorithm(...)``. Keys have the names of the Stable-Baselines3 constructor's arguments. Nothing here
imports torch.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rlher.config.key import experiment_key as key

if TYPE_CHECKING:
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

SCHEDULES = ("constant", "linear", "cosine")
"""Values of ``algo.learning_rate_schedule`` and ``algo.target_policy_noise_schedule``."""

TARGET_UPDATES = ("update", "round")
"""Values of ``algo.target_update``."""

ConfigClass = TypeVar("ConfigClass", bound="type[OffPolicyConfig]")


@dataclass(frozen=True)
class Algorithm:
    """An entry of ``ALGORITHMS``.

    :param config: dataclass of its config keys.
    :param description: one line for ``rlher list algos``: the first line of that dataclass's docstring.
    :param ours: ``module:class`` of the model, with our update step if there is one.
    :param sb3: ``module:class`` in Stable-Baselines3 or sb3-contrib.
    :param actions: kind of its action space, ``"discrete"`` or ``"continuous"``.
    :param target_network: attribute of the model that holds the target network of Q; None: it has none.
    :param sb3_trains_on_dicts: whether the ``sb3`` class trains on dictionary observations; if not, ``engine=sb3`` uses
        ``ours``.
    """

    config: "type[OffPolicyConfig]"
    description: str
    ours: str
    sb3: str
    actions: str
    target_network: str | None = "critic_target"
    sb3_trains_on_dicts: bool = True

    def load(self, engine: str = "rlher") -> "type[OffPolicyAlgorithm]":
        """Import the class with the update step of ``"rlher"`` or ``"sb3"``."""
        return import_class(self.sb3 if engine == "sb3" and self.sb3_trains_on_dicts else self.ours)


def import_class(path: str) -> "type[OffPolicyAlgorithm]":
    """Import a class from its path ``module:class``."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


ALGORITHMS: dict[str, Algorithm] = {}
"""Every algorithm, by the name that ``algo=`` takes."""


def algorithm(name: str, **entry: Any) -> Callable[[ConfigClass], ConfigClass]:
    """Register the decorated config dataclass, and with it an algorithm.

    :param name: value of ``algo=``.
    :param entry: the other fields of :class:`Algorithm`.
    """

    def register(config: ConfigClass) -> ConfigClass:
        description = (config.__doc__ or "").splitlines()[0].rstrip(".")
        ALGORITHMS[name] = Algorithm(config, description, **entry)
        return config

    return register


@dataclass
class OffPolicyConfig:
    """Keys of every off-policy algorithm."""

    name: str = key("", "algorithm; `rlher list algos` lists them")
    learning_rate: float = key(3e-4, "learning rate of Adam", low=0)
    learning_rate_schedule: str = key(
        "constant", "schedule of the learning rate; all but constant end at 0", choices=SCHEDULES
    )
    buffer_size: int = key(1_000_000, "capacity of the replay buffer in transitions", low=1)
    learning_starts: int | None = key(
        None, "steps before the first update; at least one episode of each environment", low=0
    )
    batch_size: int = key(256, "transitions per update", low=1)
    gamma: float = key(0.95, "discount factor", low=0, high=1)
    train_freq: int = key(1, "steps of the vectorised environment, or episodes, between rounds of updates", low=1)
    train_freq_unit: str = key("step", "what train_freq counts", choices=("step", "episode"))
    gradient_steps: int | None = key(None, "updates per round; null or -1: one per stored transition", low=-1)
    net_arch: list[int] = key([256, 256], "sizes of the hidden layers", low=1)
    activation: str = key("relu", "activation function", choices=("relu", "tanh", "elu", "gelu", "silu"))
    kwargs: dict[str, Any] = key({}, "more keyword arguments of the Stable-Baselines3 class")


@dataclass
class TargetConfig:
    """Keys of the algorithms with a target network."""

    tau: float = key(0.05, "Polyak update coefficient of the target network", low=0, high=1)
    target_q_bounds: Any = key("auto", "[low, high] bounds of the target values; auto: from the rewards; null: none")


@dataclass
class ActorCriticConfig(OffPolicyConfig):
    """Keys of the algorithms with continuous actions and Q critics."""

    n_critics: int = key(2, "number of critics", low=1)
    action_noise: float = key(0.0, "standard deviation of the exploration noise; actions span [-1, 1]", low=0)
    noise: str = key(
        "normal", "kind of that noise: white, Ornstein-Uhlenbeck, or pink", choices=("normal", "ou", "pink")
    )


@dataclass
class EnsembleConfig(ActorCriticConfig):
    """Keys that only the project's update step has."""

    target_critics: int | None = key(None, "random critics whose minimum is the target; null: all critics", low=1)
    target_update: str = key(
        "update", "target networks follow each update, or once per round, after its updates", choices=TARGET_UPDATES
    )
    layer_norm_critics: bool = key(False, "layer normalisation in the critics")
    random_action: float = key(0.0, "share of uniformly random actions in training", low=0, high=1)
    random_action_hold: int = key(
        1, "steps for which a random action is held; above 1, those of learning_starts, too", low=1
    )


@dataclass
class DeterministicConfig(EnsembleConfig):
    """Keys of the algorithms with a deterministic actor, after OpenAI baselines."""

    action_l2: float = key(0.0, "weight of the mean squared action in the actor's loss", low=0)


@dataclass
class EntropyConfig:
    """Keys of the maximum-entropy algorithms."""

    ent_coef: str = key("auto", "entropy coefficient: a number, auto, or auto_<initial value>")
    target_entropy: str = key("auto", "target entropy of ent_coef=auto: a number or auto")
    use_sde: bool = key(
        False, "gSDE: exploration that depends on the state, drawn anew in each round; by the update step of SB3"
    )


@algorithm(
    "dqn", ours="rlher.algos.dqn:DQN", sb3="stable_baselines3:DQN", actions="discrete", target_network="q_net_target"
)
@dataclass
class DQNConfig(TargetConfig, OffPolicyConfig):
    """Deep Q-network (Mnih et al. 2015), used for the HER paper's bit flipping."""

    target_update_interval: int = key(500, "steps between updates of the target network", low=1)
    exploration_fraction: float = key(0.5, "fraction of the run over which epsilon is reduced", low=0, high=1)
    exploration_initial_eps: float = key(1.0, "probability of a random action at the start", low=0, high=1)
    exploration_final_eps: float = key(0.05, "probability of a random action after exploration_fraction", low=0, high=1)
    max_grad_norm: float = key(10.0, "maximum norm of the gradient", low=0)


@algorithm(
    "qrdqn",
    ours="rlher.algos.qrdqn:QRDQN",
    sb3="sb3_contrib:QRDQN",
    actions="discrete",
    target_network="quantile_net_target",
)
@dataclass
class QRDQNConfig(DQNConfig):
    """DQN with quantile regression (Dabney et al. 2018)."""

    n_quantiles: int = key(50, "number of quantiles", low=1)


@algorithm("sac", ours="rlher.algos.sac:SAC", sb3="stable_baselines3:SAC", actions="continuous")
@dataclass
class SACConfig(EntropyConfig, TargetConfig, EnsembleConfig):
    """Soft actor-critic (Haarnoja et al. 2018)."""


@algorithm("td3", ours="rlher.algos.td3:TD3", sb3="stable_baselines3:TD3", actions="continuous")
@dataclass
class TD3Config(TargetConfig, DeterministicConfig):
    """Twin delayed DDPG (Fujimoto et al. 2018)."""

    policy_delay: int = key(2, "critic updates per actor update", low=1)
    target_policy_noise: float = key(0.2, "standard deviation of the target policy smoothing noise", low=0)
    target_policy_noise_schedule: str = key(
        "constant", "schedule of the target policy smoothing noise; all but constant end at 0", choices=SCHEDULES
    )
    target_noise_clip: float = key(0.5, "bound of the target policy smoothing noise", low=0)


@algorithm("ddpg", ours="rlher.algos.td3:DDPG", sb3="stable_baselines3:DDPG", actions="continuous")
@dataclass
class DDPGConfig(TargetConfig, DeterministicConfig):
    """Deep deterministic policy gradient (Lillicrap et al. 2016), used for the HER paper's robot tasks."""

    n_critics: int = key(1, "number of critics", low=1)


@algorithm("tqc", ours="rlher.algos.tqc:TQC", sb3="sb3_contrib:TQC", actions="continuous")
@dataclass
class TQCConfig(SACConfig):
    """Truncated quantile critics (Kuznetsov et al. 2020)."""

    n_quantiles: int = key(25, "quantiles per critic", low=1)
    top_quantiles_to_drop_per_net: int = key(2, "largest quantiles per critic that the target leaves out", low=0)


@algorithm(
    "crossq",
    ours="rlher.algos.crossq:CrossQ",
    sb3="sb3_contrib:CrossQ",
    actions="continuous",
    target_network=None,
    sb3_trains_on_dicts=False,
)
@dataclass
class CrossQConfig(EntropyConfig, ActorCriticConfig):
    """CrossQ: batch normalisation instead of a target network (Bhatt et al. 2024)."""

    batch_size: int = key(256, "transitions per update; one has no variance to normalise by", low=2)
    policy_delay: int = key(3, "critic updates per actor update", low=1)
