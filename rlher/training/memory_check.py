"""Check before a run that its replay buffer fits into memory, because the buffer may only be full days later."""

from collections.abc import Callable

import numpy as np
import psutil
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from rlher.config.training import TrainConfig
from rlher.core import machine
from rlher.core.errors import UserError
from rlher.her.storage import Layout, Storage

RESERVED_BYTES = 2**28
"""Memory left for the rest of a run: networks, optimisers, an evaluation."""

WORKER_BYTES = 2**27
"""Memory left for each evaluation process, beside what all of them share."""

PRIORITY_BYTES = 16
"""Bytes of a transition's priority."""


def require_memory(config: TrainConfig, envs: VecEnv) -> str:
    """Raise UserError if the replay buffer does not fit into memory; return a line on its size.

    A buffer takes memory as it fills, so a run that is shorter than its buffer needs less; but address space is
    reserved for the whole buffer at once.

    :param config: with ``env.max_episode_steps`` resolved.
    :raises UserError: with the largest ``algo.buffer_size`` that fits.
    """
    observation_space, action_space = envs.observation_space, envs.action_space
    assert isinstance(observation_space, spaces.Dict)
    capacity = config.algo.buffer_size
    stored = min(capacity, config.total_timesteps)
    row_bytes = _bytes_per_transition(config, Layout.of(observation_space, action_space))
    free = available_memory()
    fits = max(free - RESERVED_BYTES - WORKER_BYTES * (config.eval.workers or 0), 0) // row_bytes
    needed = _format_bytes(stored * row_bytes)
    if stored > fits:
        raise UserError(
            f"the replay buffer needs {needed} for {stored:,} transitions, but {_format_bytes(free)} of memory are "
            f"free; use algo.buffer_size={_round_down(fits)}."
        )

    def can_reserve(transitions: int) -> bool:
        return _can_reserve(transitions, config.n_envs, observation_space, action_space)

    if not can_reserve(capacity):
        largest = min(_largest(can_reserve, capacity), fits)
        raise UserError(
            f"the system grants no address space for a replay buffer of {capacity:,} transitions; "
            f"use algo.buffer_size={_round_down(largest)}."
        )
    return f"replay buffer of up to {stored:,} transitions, {needed}, {_round_down(fits):,} would fit"


def available_memory() -> int:
    """Return the bytes that this process can still allocate: of the machine, and within its control groups."""
    return max(min([psutil.virtual_memory().available, *machine.memory_left()]), 0)


def _bytes_per_transition(config: TrainConfig, layout: Layout) -> int:
    """Return the bytes of a transition, including its share of what is stored once per episode."""
    steps = config.env.episode_steps or 1
    goals = 2 * layout.goal.itemsize if config.env.relay.enabled else 0
    priority = PRIORITY_BYTES if config.her.priority != "uniform" else 0
    return layout.transition_bytes + goals + -(-layout.episode_bytes // steps) + priority


def _can_reserve(capacity: int, n_envs: int, observation_space: spaces.Dict, action_space: spaces.Space) -> bool:
    """Return whether the system grants address space for a replay buffer and the rest of a run."""
    try:
        reserved = np.empty(RESERVED_BYTES, dtype=np.uint8)
        Storage(max(capacity // n_envs, 1), n_envs, observation_space, action_space)
        del reserved
    except (MemoryError, ValueError, OverflowError):  # the latter two when NumPy cannot count the bytes
        return False
    return True


def _largest(fits: Callable[[int], bool], upper: int) -> int:
    """Return the largest number below ``upper`` that fits, to one part in sixteen, by bisection."""
    low, high = 0, upper
    while high - low > max(low // 16, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


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
