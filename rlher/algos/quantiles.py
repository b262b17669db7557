"""The loss of quantile regression."""

import torch as th


def quantile_huber(quantiles: th.Tensor, targets: th.Tensor) -> th.Tensor:
    """Return the quantile Huber loss (Dabney et al. 2018, arXiv:1710.10044) of every quantile.

    :param quantiles: (…, n) estimates, of the probabilities (i + 1/2) / n.
    :param targets: (…, m) samples of the distribution they estimate; no gradient flows there.
    :return: (…, n), each the mean over all targets.
    """
    count = quantiles.shape[-1]
    share = (th.arange(count, device=quantiles.device, dtype=quantiles.dtype) + 0.5) / count
    delta = targets.unsqueeze(-2) - quantiles.unsqueeze(-1)
    clipped = delta.clamp(-1, 1)
    huber = clipped * (delta - 0.5 * clipped)
    weight = (share.unsqueeze(-1) - (delta.detach() < 0).to(delta.dtype)).abs()
    return (weight * huber).mean(dim=-1)
