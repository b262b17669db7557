"""Policies with more than Stable-Baselines3's."""

from functools import cache
from typing import Any

from stable_baselines3.common.policies import BasePolicy
from torch import nn


@cache
def with_layer_norm(policy: type[BasePolicy]) -> type[BasePolicy]:
    """Return the policy with LayerNorm before each activation of its critics.

    It lets a critic bear many updates a step (DroQ, Hiraoka et al. 2022, arXiv:2110.02034).

    :param policy: of an algorithm with continuous actions.
    """

    class LayerNormCritics(policy):  # type: ignore[misc, valid-type]
        def make_critic(self, *args: Any, **kwargs: Any) -> Any:
            critic = super().make_critic(*args, **kwargs)
            for index, network in enumerate(critic.q_networks):
                critic.q_networks[index] = _normed(network).to(critic.device)
                setattr(critic, f"qf{index}", critic.q_networks[index])
            return critic

    LayerNormCritics.__name__ = f"LayerNorm{policy.__name__}"
    return LayerNormCritics


def _normed(network: nn.Sequential) -> nn.Sequential:
    *hidden, last = network
    layers: list[nn.Module] = []
    for layer in hidden:
        layers.append(layer)
        if isinstance(layer, nn.Linear):
            layers.append(nn.LayerNorm(layer.out_features))
    return nn.Sequential(*layers, last)
