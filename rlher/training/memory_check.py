"""Check before a run that its replay buffer fits into memory, because the buffer may only be full days later."""

from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.core.machine import available_memory
from rlher.her.storage import Layout

RESERVED_BYTES = 2**28
"""Memory left for the rest of a run: networks, optimisers, an evaluation."""

WORKER_BYTES = 2**27
"""Memory left for each evaluation process, beside what all of them share."""

PRIORITY_BYTES = 16
"""Bytes of a transition's priority."""


def require_memory(config: TrainConfig, envs: VecEnv) -> str:
    """Raise UserError if the replay buffer does not fit into memory; return a line on its size.

    A buffer takes memory as it fills, so a run that is shorter than its buffer needs less.

    :param config: with ``env.max_episode_steps`` resolved.
    :raises UserError: with the largest ``algo.buffer_size`` that fits.
    """
    observation_space, action_space = envs.observation_space, envs.action_space
    assert isinstance(observation_space, spaces.Dict)
    stored = min(config.algo.buffer_size, config.total_timesteps)
    row_bytes = _bytes_per_transition(config, Layout.of(observation_space, action_space))
    free = available_memory()
    fits = max(free - RESERVED_BYTES - WORKER_BYTES * (config.eval.workers or 0), 0) // row_bytes
    needed = _format_bytes(stored * row_bytes)
    if stored > fits:
        raise UserError(
            f"the replay buffer needs {needed} for {stored:,} transitions, but {_format_bytes(free)} of memory are "
            f"free; use algo.buffer_size={_round_down(fits)}."
        )
    return f"replay buffer of up to {stored:,} transitions, at most {needed}; {_round_down(fits):,} would fit"


def _bytes_per_transition(config: TrainConfig, layout: Layout) -> int:
    """Return the bytes of a transition, including its share of what is stored once per episode."""
    steps = config.env.episode_steps or 1
    priority = PRIORITY_BYTES if config.her.priority != "uniform" else 0
    return layout.transition_bytes + -(-layout.episode_bytes // steps) + priority


def _round_down(number: int) -> int:
    """Return the number rounded down to two digits."""
    unit = 10 ** max(len(str(number)) - 2, 0)
    return number // unit * unit


def _format_bytes(count: float) -> str:
    """Return a size such as ``"1.2 GB"``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.{count < 10:d}f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
