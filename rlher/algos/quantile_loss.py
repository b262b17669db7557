"""The quantile Huber loss of TQC and QR-DQN."""

import torch as th


def quantile_huber_loss(quantiles: th.Tensor, targets: th.Tensor) -> th.Tensor:
    """Return the quantile Huber loss (Dabney et al. 2018, arXiv:1710.10044) of every quantile.

    ``sb3_contrib.common.utils.quantile_huber_loss`` computes the same through autograd.

    :param quantiles: (…, n) estimates, of the probabilities (i + 1/2) / n.
    :param targets: (…, m) samples of the estimated distribution; they get no gradient.
    :return: (…, n), each the mean over all targets.
    """
    count = quantiles.shape[-1]
    share = ((th.arange(count, device=quantiles.device, dtype=quantiles.dtype) + 0.5) / count).unsqueeze(-1)
    # The gradient is computed here: autograd would pass over all (…, n, m) pairs twice as often.
    with th.no_grad():
        delta = targets.unsqueeze(-2) - quantiles.unsqueeze(-1)
        clipped = delta.clamp(-1, 1)
        slopes = th.addcmul(share * clipped, 1 - 2 * share, clipped.clamp(max=0))  # |share - (delta < 0)| * clipped
        loss = (slopes * delta.sub_(clipped, alpha=0.5)).mean(dim=-1)
        slope = slopes.mean(dim=-1)
    return loss - slope * (quantiles - quantiles.detach())
