"""What the buffer's constructor refuses, and what it takes from older versions with a word."""

import warnings

from gymnasium import spaces

from rlher.her.layout import ACHIEVED, GOAL
from rlher.her.prioritization import PRIORITIES


def check_arguments(
    buffer_size: int,
    observation_space: spaces.Space,
    n_sampled_goal: int,
    optimize_memory_usage: bool,
    relabel: str,
) -> None:
    """Check the space and what SB3's buffer takes, too.

    :raises ValueError: a goal is missing, or an argument out of its range.
    """
    keys = set(observation_space.spaces) if isinstance(observation_space, spaces.Dict) else set()
    missing = {ACHIEVED, GOAL} - keys
    if missing:
        raise ValueError(f"The observation space has no {' and no '.join(sorted(missing))}: no goal environment.")
    if buffer_size < 1:
        raise ValueError(f"buffer_size={buffer_size} must be at least 1.")
    if n_sampled_goal < 0:
        raise ValueError(f"n_sampled_goal={n_sampled_goal} must be at least 0.")
    if optimize_memory_usage:
        raise ValueError("optimize_memory_usage is not needed: every observation is stored once as it is.")
    if relabel not in ("right", "sb3"):
        raise ValueError(f"relabel={relabel!r} is not one of right, sb3.")


def check_returns(n_steps: int, gamma: float, goal_gamma: float, priority: str) -> None:
    """Check what a return and a draw are made of.

    :raises ValueError: an argument out of its range.
    """
    if n_steps < 1:
        raise ValueError(f"n_steps={n_steps} must be at least 1.")
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma={gamma} must lie between 0 and 1.")
    if not 0 <= goal_gamma <= 1:
        raise ValueError(f"goal_gamma={goal_gamma} must lie between 0 and 1.")
    if priority not in PRIORITIES:
        raise ValueError(f"priority={priority!r} is not one of {', '.join(PRIORITIES)}.")


def warn_of_old_arguments(online_sampling: bool | None, max_episode_length: int | None) -> None:
    """Say what replaced two arguments of older versions of SB3."""
    if online_sampling is not None:
        warnings.warn(
            "online_sampling is not needed any more: goals are always drawn when a batch is sampled.", stacklevel=3
        )
    if max_episode_length is not None:
        warnings.warn(
            "max_episode_length is not needed any more: episodes of any length are stored as they come.",
            stacklevel=3,
        )
