"""Check before a run that its replay buffer fits into memory, because the buffer may only be full days later."""

import psutil
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.her.storage import Layout

RESERVED_BYTES = 2**28
"""Memory left for the rest of a run: networks, optimisers, an evaluation."""

WORKER_BYTES = 2**27
"""Memory left for each evaluation process, beside what all of them share."""

PRIORITY_BYTES = 16
"""Bytes of a transition's priority, if it has one."""

MB = 10**6


def require_memory(config: TrainConfig, envs: VecEnv) -> str:
    """Raise UserError if the replay buffer does not fit into memory; return a line on its size.

    A buffer takes memory as it fills, so a run that is shorter than its buffer needs less.

    :param config: with ``env.max_episode_steps`` resolved.
    :raises UserError: with the largest ``algo.buffer_size`` that fits.
    """
    stored = min(config.algo.buffer_size, config.total_timesteps)
    assert isinstance(envs.observation_space, spaces.Dict)
    layout = Layout.of(envs.observation_space, envs.action_space)
    per_episode = -(-layout.episode_bytes // (config.env.episode_steps or 1))
    needed = stored * (layout.transition_bytes + per_episode + PRIORITY_BYTES)
    free = psutil.virtual_memory().available
    usable = max(free - RESERVED_BYTES - WORKER_BYTES * (config.eval.workers or 0), 0)
    if needed > usable:
        raise UserError(
            f"the replay buffer needs {needed / MB:,.0f} MB for {stored:,} transitions, but {free / MB:,.0f} MB of "
            f"memory are free; use algo.buffer_size={stored * usable // needed}."
        )
    return f"replay buffer of up to {stored:,} transitions, at most {needed / MB:,.2f} MB"
