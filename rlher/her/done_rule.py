"""The ``done`` of virtual transitions.

SB3 recomputes the reward alone and keeps the ``done`` of the original goal (stable-baselines3 #627). Where episodes
end on success, a transition relabelled to success then bootstraps beyond the end, and a real success relabelled to
another goal is terminal without being one.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.choices import RELABEL_DONE
from rlher.her.sparse_reward import Floats, SparseReward

Bools = NDArray[np.bool_]

ROUNDING = 1e-5
"""Tolerance of the success threshold (relative above 1), because rewards are stored as float32."""


@dataclass
class DoneRule:
    """Decides ``done`` of virtual transitions.

    :param mode: one of :data:`RELABEL_DONE`. ``keep``: as collected (SB3's). ``success``: where the new goal is
        reached, and where the episode was terminated for another reason than reaching the old goal, such as a crash.
        ``never``: nowhere. ``auto``: ``success`` where episodes end on success, else ``keep``.
    :param ends_on_success: whether success terminates an episode. None: whether most of the stored transitions that
        reached their goal were terminal; before the first of them, ``auto`` means ``keep``.
    :param success_reward: ``compute_reward`` at or above which a goal counts as reached. None: the greater value of a
        sparse reward. With a dense reward success is unknown, and ``keep`` applies.
    :param sparse: the values of ``compute_reward``.
    :raises ValueError: unknown mode, or ``success_reward`` is not finite.
    """

    mode: str = "auto"
    ends_on_success: bool | None = None
    success_reward: float | None = None
    sparse: SparseReward = field(default_factory=SparseReward)
    _ended: int = 0
    _continued: int = 0

    def __post_init__(self) -> None:
        if self.mode not in RELABEL_DONE:
            raise ValueError(f"relabel_done={self.mode!r} is unknown; use {', '.join(RELABEL_DONE)}.")
        if self.success_reward is not None and not np.isfinite(self.success_reward):
            raise ValueError(f"success_reward={self.success_reward} is not finite; use a number or None.")

    def reset(self, sparse: SparseReward) -> None:
        """Discard everything observed."""
        self.sparse, self._ended, self._continued = sparse, 0, 0

    @property
    def needs_observations(self) -> bool:
        """Whether :meth:`observe` can still change the rule."""
        return self.mode == "auto" and self.ends_on_success is None

    @property
    def in_force(self) -> str:
        """The mode with ``auto`` resolved and unknown success considered: ``keep``, ``success`` or ``never``."""
        if self.mode not in ("auto", "success"):
            return self.mode
        ends = self.ends_on_success if self.ends_on_success is not None else self._ended > self._continued
        return "success" if (ends or self.mode == "success") and self._threshold() is not None else "keep"

    def observe(self, explained: Floats, terminated: Bools) -> None:
        """Count whether episodes end on success.

        :param explained: (n,) ``compute_reward`` under the original goals.
        :param terminated: (n,) whether the transition ended its episode, time-outs excepted.
        """
        reached = self.success(explained)
        self._ended += int(np.sum(reached & terminated))
        self._continued += int(np.sum(reached & ~terminated))

    def state(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {"ended": self._ended, "went_on": self._continued}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a value of :meth:`state`."""
        self._ended, self._continued = int(state["ended"]), int(state["went_on"])

    def _threshold(self) -> float | None:
        return self.sparse.success if self.success_reward is None else self.success_reward

    def success(self, explained: Floats) -> Bools:
        """Return (n,) whether the goal is reached under those rewards; all False while that is unknown."""
        threshold = self._threshold()
        if threshold is None:
            return np.zeros(len(explained), dtype=bool)
        return np.asarray(explained >= threshold - ROUNDING * max(1.0, abs(threshold)))

    def done(self, explained: Floats, terminated: Bools, stored: Floats, goal_independent: Floats) -> Bools:
        """Return (n,) ``done`` of virtual transitions.

        :param explained: (n,) ``compute_reward`` under the new goals, without any goal-independent part.
        :param terminated: (n,) whether the transition as collected was terminal, time-outs excepted.
        :param stored: (n,) rewards as collected.
        :param goal_independent: (n,) the goal-independent part of those.
        """
        mode = self.in_force
        if mode == "keep":
            return terminated
        if mode == "never":
            return np.zeros(len(terminated), dtype=bool)
        done = self.success(explained)
        ended = np.flatnonzero(terminated)
        if ended.size:  # a failure, such as a crash, stays terminal under any goal
            done[ended] |= ~self.success(stored[ended] - goal_independent[ended])
        return done
