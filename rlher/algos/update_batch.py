"""What an algorithm's ``update`` takes and returns."""

from typing import Any, NamedTuple

import torch as th
from stable_baselines3.common.type_aliases import PyTorchObs

LoggedValues = dict[str, th.Tensor]
"""Losses and other numbers of an update, such as the entropy coefficient, by name in the log."""


class UpdateBatch(NamedTuple):
    """The buffer's batch in the form that the losses need, and the random numbers of the algorithm.

    Discounts are 0 where ``done`` is set, and all values are tensors, so that losses can be compiled. Observations are
    one tensor if all their keys are vectors. Pass them to
    :meth:`~rlher.algos.off_policy_algorithm.OffPolicyAlgorithm.features`.

    The random numbers are drawn before the losses are computed, in Stable-Baselines3's order. So compiled and
    uncompiled code use the same numbers.

    :ivar obs: (batch, features), the keys joined in alphabetical order: ``achieved_goal``, ``desired_goal``, …. With
        images, or a features extractor of your own, (batch, …) observations by key.
    :ivar actions: (batch, action_dim), or (batch, 1) indices of discrete actions.
    :ivar next_obs: as ``obs``.
    :ivar rewards: (batch, 1) rewards or n-step returns.
    :ivar discounts: (batch, 1) discounts of the value of ``next_obs``; 0 if nothing is bootstrapped.
    :ivar weights: (batch, 1) importance weights, None if all are equal.
    :ivar demonstrations: observations and actions to clone, None if there are none.
    :ivar noise: (batch, action_dim) noise of the actor's actions.
    :ivar next_noise: (batch, action_dim) noise of the target actions.
    :ivar ent_coef: entropy coefficient.
    """

    obs: PyTorchObs
    actions: th.Tensor
    next_obs: PyTorchObs
    rewards: th.Tensor
    discounts: th.Tensor
    weights: th.Tensor | None = None
    demonstrations: tuple[PyTorchObs, th.Tensor] | None = None
    noise: Any = None
    next_noise: Any = None
    ent_coef: Any = None

    def weighted_mean(self, losses: th.Tensor) -> th.Tensor:
        """Return the mean of losses (…, batch, any), with each transition weighted by its importance."""
        return losses.mean() if self.weights is None else (losses * self.weights).mean()
