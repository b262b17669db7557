"""Truncated quantile critics."""

import sb3_contrib
import torch as th

from rlher.algos.actor_critic import Draws
from rlher.algos.fast_update import Batch
from rlher.algos.max_entropy import MaximumEntropy
from rlher.algos.quantile_loss import quantile_huber_loss


class TQC(MaximumEntropy, sb3_contrib.TQC):
    """Truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269), as ``sb3_contrib.TQC`` with our update."""

    def critic_loss(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor]:
        """Return the loss towards the pooled quantiles of the target critics without the largest ones."""
        _, noise, ent_coef, *subset = draws
        with th.no_grad():
            actions, log_prob = self.action_and_log_prob(batch.next_obs, noise)
            quantiles = self.target_q_values(batch, actions, tuple(subset))
            kept = len(quantiles) * (quantiles.shape[2] - self.top_quantiles_to_drop_per_net)
            pooled = quantiles.transpose(0, 1).flatten(1)
            target = batch.rewards + batch.discounts * (pooled - ent_coef * log_prob)
            target = target.topk(kept, dim=1, largest=False, sorted=False).values
        quantiles = self.q_values(batch)
        losses = quantile_huber_loss(quantiles, target.expand(len(quantiles), *target.shape))
        return batch.mean(losses), (quantiles.mean(dim=2, keepdim=True) - target.mean(dim=1, keepdim=True))

    def actor_value(self, values: th.Tensor) -> th.Tensor:
        """Return the mean over quantiles and critics."""
        return values.mean(dim=(0, 2)).unsqueeze(1)
