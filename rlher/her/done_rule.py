"""The ``done`` of virtual transitions, and whether the reward is sparse.

SB3 recomputes the reward alone and keeps the ``done`` of the original goal (stable-baselines3 #627). Where episodes
end on success, a transition relabelled to success then bootstraps beyond the end, and a real success relabelled to
another goal is terminal without being one.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.names import RELABEL_DONE

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]

ROUNDING = 1e-5
"""Tolerance of the success threshold (relative above 1), because rewards are stored as float32."""


class SparseReward:
    """Collects values of ``compute_reward`` until there are three; the reward is sparse while there are two.

    :ivar values: the two values of a sparse reward, the lower first; empty while it is not known to be sparse.
    :ivar success: reward of a goal that is reached; None where it is unknown.
    """

    def __init__(self) -> None:
        self.values: list[float] = []
        self.success: float | None = None
        self._seen: set[float] = set()  # at most three, and the rewards of exactly achieved goals
        self._exact: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether another value can still change the answer."""
        return len(self._seen) <= 2

    @property
    def needs_exact(self) -> bool:
        """Whether :meth:`observe` needs the rewards of goals that are achieved exactly: at its first call."""
        return self._exact is None

    def observe(self, rewards: Floats, exact: Floats | None) -> None:
        """Record values of ``compute_reward``.

        :param rewards: (n,) under the original goals.
        :param exact: (n,) under goals equal to the achieved ones, if :attr:`needs_exact`.
        """
        if exact is not None:
            self._exact = float(np.min(exact))
            self._seen.update(np.unique(exact)[:3].tolist())
        if self.is_open:
            self._seen.update(np.unique(rewards)[:3].tolist())
        self._conclude()

    def state(self) -> dict[str, Any]:
        """Return the recorded values as JSON values."""
        return {"values": sorted(self._seen), "exact": self._exact}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a value of :meth:`state`."""
        self._seen, self._exact = set(state["values"]), state["exact"]
        self._conclude()

    def _conclude(self) -> None:
        self.values = sorted(self._seen) if len(self._seen) == 2 else []
        self.success = self._exact if self.values and self._exact == self.values[1] else None


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
    :ivar sparse: the values of ``compute_reward``.
    :raises ValueError: unknown mode, or ``success_reward`` is not finite.
    """

    mode: str = "auto"
    ends_on_success: bool | None = None
    success_reward: float | None = None
    sparse: SparseReward = field(default_factory=SparseReward, init=False)
    _ended: int = field(default=0, init=False)
    _continued: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.mode not in RELABEL_DONE:
            raise ValueError(f"relabel_done={self.mode!r} is unknown; use {', '.join(RELABEL_DONE)}.")
        if self.success_reward is not None and not np.isfinite(self.success_reward):
            raise ValueError(f"success_reward={self.success_reward} is not finite; use a number or None.")

    def reset(self) -> None:
        """Discard everything observed."""
        self.sparse, self._ended, self._continued = SparseReward(), 0, 0

    @property
    def needs_observations(self) -> bool:
        """Whether :meth:`observe` can still change the rule."""
        return self.mode == "auto" and self.ends_on_success is None

    @property
    def resolved_mode(self) -> str:
        """The mode with ``auto`` resolved and unknown success considered: ``keep``, ``success`` or ``never``."""
        if self.mode not in ("auto", "success"):
            return self.mode
        ends = self.ends_on_success if self.ends_on_success is not None else self._ended > self._continued
        return "success" if (ends or self.mode == "success") and self._threshold() is not None else "keep"

    def observe(self, goal_rewards: Floats, terminated: Bools) -> None:
        """Count whether episodes end on success.

        :param goal_rewards: (n,) ``compute_reward`` under the original goals.
        :param terminated: (n,) whether the transition ended its episode, time-outs excepted.
        """
        reached = self.success(goal_rewards)
        self._ended += int(np.sum(reached & terminated))
        self._continued += int(np.sum(reached & ~terminated))

    def state(self) -> dict[str, Any]:
        """Return everything observed as JSON values."""
        return {"ended": self._ended, "continued": self._continued} | self.sparse.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a value of :meth:`state`."""
        self._ended, self._continued = int(state["ended"]), int(state["continued"])
        self.sparse.restore(state)

    def _threshold(self) -> float | None:
        return self.sparse.success if self.success_reward is None else self.success_reward

    def success(self, goal_rewards: Floats) -> Bools:
        """Return (n,) whether the goal is reached under these rewards; all False while that is unknown."""
        threshold = self._threshold()
        if threshold is None:
            return np.zeros(len(goal_rewards), dtype=bool)
        return np.asarray(goal_rewards >= threshold - ROUNDING * max(1.0, abs(threshold)))

    def done(self, goal_rewards: Floats, terminated: Bools, stored: Floats, goal_independent: Floats) -> Bools:
        """Return (n,) ``done`` of virtual transitions.

        :param goal_rewards: (n,) ``compute_reward`` under the new goals, without any goal-independent part.
        :param terminated: (n,) whether the transition as collected was terminal, time-outs excepted.
        :param stored: (n,) rewards as collected.
        :param goal_independent: (n,) the goal-independent part of ``stored``.
        """
        mode = self.resolved_mode
        if mode == "keep":
            return terminated
        if mode == "never":
            return np.zeros(len(terminated), dtype=bool)
        done = self.success(goal_rewards)
        ended = np.flatnonzero(terminated)
        if ended.size:  # a failure, such as a crash, stays terminal under any goal
            done[ended] |= ~self.success(stored[ended] - goal_independent[ended])
        return done
