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


ALIGNED = 16  # bytes, more than any type of a tensor has


def moved(sample: HerReplayBufferSamples, device: th.device) -> HerReplayBufferSamples:
    """Return a sample of the processor's memory on another device, all its tensors in one copy.

    A copy to a GPU has its price whatever its size, and a sample has about ten tensors of a few kilobytes. They are put
    one behind the other, in page-locked memory for CUDA, and what arrives is cut up again without copying.
    """
    parts = [*sample.observations.values(), *sample.next_observations.values(), *filter(th.is_tensor, sample)]
    tensors = {id(tensor): tensor for tensor in parts}  # the goal may be the same before and after
    begins, size = {}, 0
    for name, tensor in tensors.items():
        begins[name] = size
        size += -(-tensor.nbytes // ALIGNED) * ALIGNED
    host = th.empty(size, dtype=th.uint8, pin_memory=device.type == "cuda")
    for name, tensor in tensors.items():
        _cut(host, begins[name], tensor).copy_(tensor)
    there = host.to(device, non_blocking=True)
    arrived = {name: _cut(there, begins[name], tensor) for name, tensor in tensors.items()}
    return sample._replace(
        observations={key: arrived[id(value)] for key, value in sample.observations.items()},
        next_observations={key: arrived[id(value)] for key, value in sample.next_observations.items()},
        actions=arrived[id(sample.actions)],
        dones=arrived[id(sample.dones)],
        rewards=arrived[id(sample.rewards)],
        discounts=arrived.get(id(sample.discounts)),
        weights=arrived.get(id(sample.weights)),
    )


def _cut(joined: th.Tensor, begin: int, like: th.Tensor) -> th.Tensor:
    """Return the bytes of a joined tensor from ``begin`` on, as a tensor of that type and shape."""
    return joined[begin : begin + like.nbytes].view(like.dtype).view(like.shape)
