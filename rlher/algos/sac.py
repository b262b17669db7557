"""Soft actor-critic."""

import stable_baselines3
import torch as th

from rlher.algos.actor_critic import Draws
from rlher.algos.fast_update import Batch
from rlher.algos.max_entropy import MaximumEntropy


class SAC(MaximumEntropy, stable_baselines3.SAC):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), as ``stable_baselines3.SAC`` with our update step."""

    def critic_loss(self, batch: Batch, draws: Draws) -> tuple[th.Tensor, th.Tensor]:
        """Return half the squared TD error summed over critics; the target is the minimum of the target critics."""
        _, noise, ent_coef, *subset = draws
        with th.no_grad():
            actions, log_prob = self.action_and_log_prob(batch.next_obs, noise)
            value = self.target_q_values(batch, actions, tuple(subset)).amin(dim=0) - ent_coef * log_prob
            target = batch.rewards + batch.discounts * value
        errors = self.q_values(batch) - target
        return 0.5 * len(errors) * batch.mean(errors**2), errors

    def actor_value(self, values: th.Tensor) -> th.Tensor:
        """Return the minimum of the critics; with ``target_critics`` their mean (REDQ)."""
        return minimum(values) if self.options.target_critics is None else values.mean(dim=0)


def minimum(values: th.Tensor) -> th.Tensor:
    """Return the minimum over the first dimension; of equal values only the first gets a gradient.

    ``amin`` divides the gradient among equal values, which compiled code repeats for every weight of the last layer.
    """
    smallest, *rest = values.unbind()
    for value in rest:
        smallest = th.where(value < smallest, value, smallest)
    return smallest
