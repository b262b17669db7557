"""DQN with quantile regression."""

import sb3_contrib
import torch as th
from stable_baselines3.common.policies import BaseModel

from rlher.algos.dqn import Discrete
from rlher.algos.fast_update import Batch
from rlher.algos.quantile_loss import quantile_huber


class QRDQN(Discrete, sb3_contrib.QRDQN):
    """Quantile-regression DQN (Dabney et al. 2018, arXiv:1710.10044), as ``sb3_contrib.QRDQN`` with our update step."""

    def networks(self) -> list[BaseModel]:
        """List network and target."""
        return [self.quantile_net, self.quantile_net_target]

    def loss(self, batch: Batch) -> tuple[th.Tensor, th.Tensor]:
        """Quantile regression towards the quantiles of the action whose mean is greatest."""
        with th.no_grad():
            after = self.bounded(self._quantiles(self.quantile_net_target, batch.next_obs))
            target = batch.rewards + batch.discounts * of_action(after, after.mean(dim=1).argmax(dim=1))
        now = of_action(self._quantiles(self.quantile_net, batch.obs), batch.actions.long().squeeze(1))
        losses = quantile_huber(now, target)
        # Summed, not averaged, over the quantiles, as in the paper.
        return now.shape[1] * batch.mean(losses), (now.mean(dim=1) - target.mean(dim=1)).unsqueeze(1)

    def _quantiles(self, network: BaseModel, obs: th.Tensor) -> th.Tensor:
        """Return (batch, quantiles, actions)."""
        return network.quantile_net(obs).float().view(len(obs), self.n_quantiles, -1)  # type: ignore[operator]

    def act(self, obs: th.Tensor, deterministic: bool) -> th.Tensor:
        """Return the actions whose mean is greatest."""
        return self._quantiles(self.quantile_net, obs).mean(dim=1).argmax(dim=1)


def of_action(quantiles: th.Tensor, actions: th.Tensor) -> th.Tensor:
    """Return (batch, quantiles) of the actions (batch,), from (batch, quantiles, actions)."""
    return quantiles.gather(2, actions.view(-1, 1, 1).expand(-1, quantiles.shape[1], 1)).squeeze(2)
