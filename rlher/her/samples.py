"""A batch as the algorithms take it."""

from typing import NamedTuple

import torch as th
from numpy.typing import NDArray


class HerReplayBufferSamples(NamedTuple):
    """SB3's ``DictReplayBufferSamples``, field for field, and what prioritised replay needs.

    :param observations: (batch, …) tensors by key.
    :param actions: (batch, action_dim).
    :param next_observations: (batch, …) tensors by key.
    :param dones: (batch, 1), 1 where nothing is bootstrapped.
    :param rewards: (batch, 1).
    :param discounts: (batch, 1) discount of the bootstrapped value, None with one-step returns.
    :param weights: (batch, 1) importance weights, None without priorities by TD error.
    :param indices: (batch,) what ``update_priorities`` takes, None without such priorities.
    """

    observations: dict[str, th.Tensor]
    actions: th.Tensor
    next_observations: dict[str, th.Tensor]
    dones: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor | None = None
    weights: th.Tensor | None = None
    indices: NDArray | None = None
