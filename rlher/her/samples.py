"""Batches as tensors, in the form that SB3's algorithms take, on any device."""

from typing import Any, NamedTuple

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecNormalize


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

        def move(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: move(each) for key, each in value.items()}
            return value.to(device) if isinstance(value, th.Tensor) else value

        return HerReplayBufferSamples(*map(move, self))


def to_samples(
    rows: NDArray,
    next_obs: NDArray,
    rewards: NDArray,
    dones: NDArray,
    discounts: NDArray | None,
    env: VecNormalize | None,
) -> HerReplayBufferSamples:
    """Return a batch as tensors in the processor's memory, without copies where possible.

    :param rows: (batch,) packed rows of the storage, with the goals under which rewards count.
    :param next_obs: (batch,) packed observations after the step, or after several steps.
    :param rewards: (batch,) rewards, or returns over several steps.
    :param dones: (batch,) 1 where nothing is bootstrapped.
    :param discounts: (batch,) discount of the bootstrapped value; None with one-step returns.
    :param env: normalises observations and rewards; None: they stay as they are.
    """
    obs, next_observations = ({key: each[key] for key in each.dtype.names or ()} for each in (rows["obs"], next_obs))
    rewards = rewards.reshape(-1, 1)
    if env is not None:
        obs, next_observations = env.normalize_obs(obs), env.normalize_obs(next_observations)  # type: ignore[assignment]
        rewards = env.normalize_reward(rewards).astype(np.float32)
    return HerReplayBufferSamples(
        {key: th.from_numpy(value) for key, value in obs.items()},
        th.from_numpy(rows["action"]),
        {key: th.from_numpy(value) for key, value in next_observations.items()},
        th.from_numpy(dones.reshape(-1, 1)),
        th.from_numpy(rewards),
        None if discounts is None else th.from_numpy(discounts.astype(np.float32).reshape(-1, 1)),
    )
