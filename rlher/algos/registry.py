"""One line an algorithm; its config keys stand in `rlher.config`. Nothing here imports torch."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm


@dataclass(frozen=True)
class Algorithm:
    """What the rest of the program must know of an algorithm before it is imported.

    :param path: ``module:class`` of the model.
    :param actions: ``"discrete"`` or ``"continuous"``, the kind of action space it acts in.
    :param target: attribute of the model that holds the target network of Q, if it has one.
    :param text: one line for ``rlher list algos``.
    """

    path: str
    actions: str
    target: str | None
    text: str

    def load(self) -> "type[OffPolicyAlgorithm]":
        """Import the class."""
        module, _, name = self.path.partition(":")
        return getattr(importlib.import_module(module), name)


ALGORITHMS: dict[str, Algorithm] = {
    "dqn": Algorithm("stable_baselines3:DQN", "discrete", "q_net_target", "deep Q-network (Mnih et al. 2015)"),
    "qrdqn": Algorithm(
        "sb3_contrib:QRDQN", "discrete", "quantile_net_target", "quantile-regression DQN (Dabney et al. 2018)"
    ),
    "sac": Algorithm(
        "stable_baselines3:SAC", "continuous", "critic_target", "soft actor-critic (Haarnoja et al. 2018)"
    ),
    "td3": Algorithm(
        "stable_baselines3:TD3", "continuous", "critic_target", "twin delayed DDPG (Fujimoto et al. 2018)"
    ),
    "ddpg": Algorithm(
        "stable_baselines3:DDPG",
        "continuous",
        "critic_target",
        "deterministic policy gradient (Lillicrap et al. 2016)",
    ),
    "tqc": Algorithm(
        "sb3_contrib:TQC", "continuous", "critic_target", "truncated quantile critics (Kuznetsov et al. 2020)"
    ),
    "crossq": Algorithm(
        "rlher.algos.crossq:CrossQ", "continuous", None, "batch-normalised critics (Bhatt et al. 2024)"
    ),
}
