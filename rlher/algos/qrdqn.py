"""Quantile-regression DQN."""

from collections.abc import Callable
from typing import Any

import sb3_contrib
import torch as th
from stable_baselines3.common.policies import BaseModel
from torch import nn

from rlher.algos.dqn import DQNUpdate
from rlher.algos.fast_update import LossInputs
from rlher.algos.tqc import quantile_huber_loss


class QRDQN(DQNUpdate, sb3_contrib.QRDQN):
    """Quantile-regression DQN (Dabney et al. 2018, arXiv:1710.10044): ``sb3_contrib.QRDQN`` with the fast update."""

    def networks(self) -> list[BaseModel]:
        """Return quantile network and target network."""
        return [self.quantile_net, self.quantile_net_target]

    def loss(self, batch: LossInputs) -> tuple[th.Tensor, th.Tensor]:
        """Return the quantile regression loss towards the target quantiles of the greedy next action."""
        with th.no_grad():
            next_quantiles = self.clamp_target(self._quantiles(self.quantile_net_target, batch.next_obs, self.forward))
            greedy = next_quantiles.mean(dim=1).argmax(dim=1)
            target = batch.rewards + batch.discounts * quantiles_of_actions(next_quantiles, greedy)
        quantiles = self._quantiles(self.quantile_net, batch.obs, self.forward)
        quantiles = quantiles_of_actions(quantiles, batch.actions.long().squeeze(1))
        losses = quantile_huber_loss(quantiles, target)
        # Summed, not averaged, over the quantiles, as in the paper.
        return quantiles.shape[1] * batch.mean(losses), (quantiles.mean(dim=1) - target.mean(dim=1)).unsqueeze(1)

    def _quantiles(self, network: Any, obs: th.Tensor, forward: Callable = nn.Module.__call__) -> th.Tensor:
        """Return the quantiles of all actions: (batch, quantiles, actions)."""
        return forward(network.quantile_net, obs).view(len(obs), self.n_quantiles, -1)

    def act(self, obs: th.Tensor, deterministic: bool) -> th.Tensor:
        """Return the actions with the largest mean over quantiles."""
        return self._quantiles(self.quantile_net, obs).mean(dim=1).argmax(dim=1)


def quantiles_of_actions(quantiles: th.Tensor, actions: th.Tensor) -> th.Tensor:
    """Return (batch, quantiles) of the actions (batch,), from (batch, quantiles, actions)."""
    return quantiles.gather(2, actions.view(-1, 1, 1).expand(-1, quantiles.shape[1], 1)).squeeze(2)
