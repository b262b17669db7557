"""Policies with LayerNorm in their critics."""

from functools import cache
from typing import Any

from stable_baselines3.common.policies import BasePolicy
from torch import nn


@cache
def with_layer_norm(policy: type[BasePolicy]) -> type[BasePolicy]:
    """Return a subclass of the policy with LayerNorm before each activation of its critics.

    It keeps critics stable under many updates per step (DroQ, Hiraoka et al. 2022, arXiv:2110.02034).

    :param policy: policy class of an algorithm with continuous actions.
    """

    class LayerNormCritics(policy):  # type: ignore[misc, valid-type]
        def make_critic(self, *args: Any, **kwargs: Any) -> Any:
            critic = super().make_critic(*args, **kwargs)
            for index, network in enumerate(critic.q_networks):
                critic.q_networks[index] = _add_layer_norm(network).to(critic.device)
                setattr(critic, f"qf{index}", critic.q_networks[index])
            return critic

    LayerNormCritics.__name__ = f"LayerNorm{policy.__name__}"
    return LayerNormCritics


def _add_layer_norm(network: nn.Sequential) -> nn.Sequential:
    *hidden, last = network
    layers: list[nn.Module] = []
    for layer in hidden:
        layers.append(layer)
        if isinstance(layer, nn.Linear):
            layers.append(nn.LayerNorm(layer.out_features))
    return nn.Sequential(*layers, last)
