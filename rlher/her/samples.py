"""Batches as tensors, in the form that SB3's algorithms take, on any device."""

from typing import Any, NamedTuple

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecNormalize

from rlher.her.relabelling import SampledBatch


class HerReplayBufferSamples(NamedTuple):
    """SB3's ``DictReplayBufferSamples``, field for field, with the additional fields of prioritised replay.

    :param observations: (batch, …) tensors by key.
    :param actions: (batch, action_dim).
    :param next_observations: (batch, …) tensors by key.
    :param dones: (batch, 1), 1 where nothing is bootstrapped.
    :param rewards: (batch, 1).
    :param discounts: (batch, 1) discount of the bootstrapped value, None with one-step returns.
    :param weights: (batch, 1) importance weights, None without priorities by TD error.
    :param indices: (batch,) ids of the transitions for ``update_priorities``, None without such priorities.
    :param demonstrations: which of the transitions are demonstrations, None without any.
    """

    observations: dict[str, th.Tensor]
    actions: th.Tensor
    next_observations: dict[str, th.Tensor]
    dones: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor | None = None
    weights: th.Tensor | None = None
    indices: NDArray | None = None
    demonstrations: slice | None = None

    def to(self, device: th.device) -> "HerReplayBufferSamples":
        """Return the sample with all of its tensors on a device."""

        def move(part: Any) -> Any:
            if isinstance(part, dict):
                return {key: move(value) for key, value in part.items()}
            return part.to(device) if isinstance(part, th.Tensor) else part

        return HerReplayBufferSamples(*map(move, self))


def to_tensors(batch: SampledBatch, env: VecNormalize | None) -> HerReplayBufferSamples:
    """Return a batch as tensors in the processor's memory, without copies where possible.

    :param env: normalises observations and rewards; None: they stay as they are.
    """
    keys = batch.after.dtype.names or ()
    obs, next_obs = ({key: part[key] for key in keys} for part in (batch.now, batch.after))
    rewards = batch.rewards.reshape(-1, 1)
    if env is not None:
        obs, next_obs = env.normalize_obs(obs), env.normalize_obs(next_obs)  # type: ignore[assignment]
        rewards = env.normalize_reward(rewards).astype(np.float32)
    discounts = batch.discounts
    return HerReplayBufferSamples(
        {key: th.from_numpy(value) for key, value in obs.items()},
        th.from_numpy(batch.now["_action"]),
        {key: th.from_numpy(value) for key, value in next_obs.items()},
        th.from_numpy(batch.dones.reshape(-1, 1)),
        th.from_numpy(rewards),
        None if discounts is None else th.from_numpy(discounts.astype(np.float32).reshape(-1, 1)),
    )
