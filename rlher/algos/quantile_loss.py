"""The loss of quantile regression."""

import torch as th


def quantile_huber(quantiles: th.Tensor, targets: th.Tensor) -> th.Tensor:
    """Return the quantile Huber loss (Dabney et al. 2018, arXiv:1710.10044) of every quantile.

    :param quantiles: (…, n) estimates, of the probabilities (i + 1/2) / n.
    :param targets: (…, m) samples of the distribution they estimate; no gradient flows there.
    :return: (…, n), each the mean over all targets.
    """
    count = quantiles.shape[-1]
    share = ((th.arange(count, device=quantiles.device, dtype=quantiles.dtype) + 0.5) / count).unsqueeze(-1)
    # A loss depends on its own quantile alone, so its slope is worked out here: a graph over all (…, n, m) pairs would
    # go through them twice as often.
    with th.no_grad():
        delta = targets.unsqueeze(-2) - quantiles.unsqueeze(-1)
        clipped = delta.clamp(-1, 1)
        slope = th.addcmul(share * clipped, 1 - 2 * share, clipped.clamp(max=0))  # |share - (delta < 0)| * clipped
        loss = (slope * delta.sub_(clipped, alpha=0.5)).mean(dim=-1)
        descent = slope.mean(dim=-1)
    return loss - descent * (quantiles - quantiles.detach())
