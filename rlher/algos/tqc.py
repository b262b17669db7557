"""Truncated quantile critics, and the quantile loss."""

import sb3_contrib
import torch as th

from rlher.algos.sac import SACBase
from rlher.algos.update_batch import UpdateBatch


class TQC(SACBase, sb3_contrib.TQC):
    """Truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269): ``sb3_contrib.TQC`` with the fast update.

    Actor, entropy coefficient and target networks are updated as in SAC.
    """

    def critic_loss(self, batch: UpdateBatch) -> tuple[th.Tensor, th.Tensor]:
        """Return the quantile Huber loss, and the TD errors.

        The targets are the pooled quantiles of the target critics. ``top_quantiles_to_drop_per_net`` sets how many of
        the largest quantiles are left out.
        """
        with th.no_grad():
            actions, log_prob = self.action_and_log_prob(batch.next_obs, batch.next_noise)
            target_quantiles = self.target_q_values(batch.next_obs, actions)
            n_critics, _, n_quantiles = target_quantiles.shape
            n_kept = n_critics * (n_quantiles - self.top_quantiles_to_drop_per_net)
            pooled = target_quantiles.transpose(0, 1).flatten(1)
            target = batch.rewards + batch.discounts * (pooled - batch.ent_coef * log_prob)
            target = target.topk(n_kept, dim=1, largest=False, sorted=False).values
        quantiles = self.q_values(batch.obs, batch.actions)
        losses = quantile_huber_loss(quantiles, target.expand(len(quantiles), *target.shape))
        return batch.weighted_mean(losses), (quantiles.mean(dim=2, keepdim=True) - target.mean(dim=1, keepdim=True))

    def aggregate_q_values(self, values: th.Tensor) -> th.Tensor:
        """Return the mean over quantiles and critics."""
        return values.mean(dim=(0, 2)).unsqueeze(1)


def quantile_huber_loss(quantiles: th.Tensor, targets: th.Tensor) -> th.Tensor:
    """Return the quantile Huber loss (Dabney et al. 2018, arXiv:1710.10044) of every quantile.

    ``sb3_contrib.common.utils.quantile_huber_loss`` computes the same loss with autograd.

    :param quantiles: (…, n) estimates of the quantiles at the probabilities (i + 1/2) / n.
    :param targets: (…, m) samples of the estimated distribution; they get no gradient.
    :return: (…, n) losses, each the mean over all targets.
    """
    # The loss is computed without autograd, which would visit all (n, m) pairs a second time. Its gradient is -slope.
    # The last line attaches it with a term whose value is 0.
    count = quantiles.shape[-1]
    share = ((th.arange(count, device=quantiles.device, dtype=quantiles.dtype) + 0.5) / count).unsqueeze(-1)
    with th.no_grad():
        delta = targets.unsqueeze(-2) - quantiles.unsqueeze(-1)
        clipped = delta.clamp(-1, 1)
        slopes = th.addcmul(share * clipped, 1 - 2 * share, clipped.clamp(max=0))  # |share - (delta < 0)| * clipped
        loss = (slopes * delta.sub_(clipped, alpha=0.5)).mean(dim=-1)
        slope = slopes.mean(dim=-1)  # minus the gradient of the loss
    return loss - slope * (quantiles - quantiles.detach())
