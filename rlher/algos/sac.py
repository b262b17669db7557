"""Soft actor-critic."""

import stable_baselines3
import torch as th

from rlher.algos.actor_critic import Draws
from rlher.algos.fast_update import Batch
from rlher.algos.max_entropy import MaximumEntropy


class SAC(MaximumEntropy, stable_baselines3.SAC):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), as ``stable_baselines3.SAC`` with our update step."""

    def critic_loss(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor]:
        """Half the squared TD error, summed over the critics; the target is the least of the target critics."""
        _, noise, ent_coef, *subset = draws
        with th.no_grad():
            actions, log_prob = self.explore(batch.next_obs, noise)
            value = self.next_values(batch, actions, tuple(subset)).amin(dim=0) - ent_coef * log_prob
            target = batch.rewards + batch.discounts * value
        errors = self.values(batch) - target
        return 0.5 * len(errors) * batch.mean(errors**2), errors

    def actor_value(self, values: th.Tensor) -> th.Tensor:
        """Return the least of the critics, or their mean where the target is the least of a few (REDQ)."""
        return least(values) if self.options.target_critics is None else values.mean(dim=0)


def least(values: th.Tensor) -> th.Tensor:
    """Return the least over the first dimension, the gradient going to the first of those that are equal.

    That of ``amin`` is divided among them, which compiled code does anew for every weight of the last layer.
    """
    found, *rest = values.unbind()
    for value in rest:
        found = th.where(value < found, value, found)
    return found
