"""Batches as tensors, in the form that SB3's algorithms take, on any device."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecNormalize

from rlher.her.relabelling import SampledBatch
from rlher.her.storage import ACHIEVED, GOAL, sample_dtype


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


def to_tensors(batch: SampledBatch, keys: Sequence[str], env: VecNormalize | None) -> HerReplayBufferSamples:
    """Return a batch as tensors in the processor's memory, without copies where possible.

    :param keys: keys of the observation other than the goals.
    :param env: normalises observations and rewards; None: they stay as they are.
    """
    one_goal = batch.next_goals is batch.goals and env is None
    obs: dict[str, Any] = {key: batch.now[key] for key in (*keys, ACHIEVED)}
    next_obs: dict[str, Any] = {key: batch.after[key] for key in (*keys, ACHIEVED)}
    obs[GOAL] = batch.goals.astype(sample_dtype(batch.goals.dtype), copy=False)
    next_obs[GOAL] = obs[GOAL] if one_goal else batch.next_goals.astype(obs[GOAL].dtype, copy=False)
    rewards = batch.rewards.reshape(-1, 1)
    if env is not None:
        obs, next_obs = dict(env.normalize_obs(obs)), dict(env.normalize_obs(next_obs))
        rewards = env.normalize_reward(rewards).astype(np.float32)
    for key in obs:
        obs[key] = th.from_numpy(obs[key])
        next_obs[key] = obs[key] if one_goal and key == GOAL else th.from_numpy(next_obs[key])
    discounts = batch.discounts
    return HerReplayBufferSamples(
        obs,
        th.from_numpy(batch.now["_action"]),
        next_obs,
        th.from_numpy(batch.dones.reshape(-1, 1)),
        th.from_numpy(rewards),
        None if discounts is None else th.from_numpy(discounts.astype(np.float32).reshape(-1, 1)),
    )
