"""One line an algorithm; its config keys stand in `rlher.config.algorithms`. Nothing here imports torch."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm


@dataclass(frozen=True)
class Algorithm:
    """What the rest of the program must know of an algorithm before it is imported.

    :param path: ``module:class`` of the model, with our update step where there is one.
    :param plain: the class it stands for, with Stable-Baselines3's update step.
    :param actions: ``"discrete"`` or ``"continuous"``, the kind of action space it acts in.
    :param target: attribute of the model that holds the target network of Q, if it has one.
    :param text: one line for ``rlher list algos``.
    """

    path: str
    plain: str
    actions: str
    target: str | None
    text: str

    def load(self, engine: str = "rlher") -> "type[OffPolicyAlgorithm]":
        """Import the class with the update step of ``"rlher"`` or ``"sb3"``."""
        module, _, name = (self.plain if engine == "sb3" else self.path).partition(":")
        return getattr(importlib.import_module(module), name)


ALGORITHMS: dict[str, Algorithm] = {
    "dqn": Algorithm(
        "rlher.algos.dqn:DQN",
        "stable_baselines3:DQN",
        "discrete",
        "q_net_target",
        "deep Q-network (Mnih et al. 2015)",
    ),
    "qrdqn": Algorithm(
        "rlher.algos.qrdqn:QRDQN",
        "sb3_contrib:QRDQN",
        "discrete",
        "quantile_net_target",
        "quantile-regression DQN (Dabney et al. 2018)",
    ),
    "sac": Algorithm(
        "rlher.algos.sac:SAC",
        "stable_baselines3:SAC",
        "continuous",
        "critic_target",
        "soft actor-critic (Haarnoja et al. 2018)",
    ),
    "td3": Algorithm(
        "rlher.algos.td3:TD3",
        "stable_baselines3:TD3",
        "continuous",
        "critic_target",
        "twin delayed DDPG (Fujimoto et al. 2018)",
    ),
    "ddpg": Algorithm(
        "rlher.algos.td3:DDPG",
        "stable_baselines3:DDPG",
        "continuous",
        "critic_target",
        "deterministic policy gradient (Lillicrap et al. 2016)",
    ),
    "tqc": Algorithm(
        "rlher.algos.tqc:TQC",
        "sb3_contrib:TQC",
        "continuous",
        "critic_target",
        "truncated quantile critics (Kuznetsov et al. 2020)",
    ),
    # sb3-contrib's has no MultiInputPolicy, so both are ours; its update step is sb3-contrib's.
    "crossq": Algorithm(
        "rlher.algos.crossq:CrossQ",
        "rlher.algos.crossq:CrossQ",
        "continuous",
        None,
        "batch-normalised critics (Bhatt et al. 2024)",
    ),
}
