"""The ``done`` of virtual transitions, and whether the reward is sparse.

SB3 recomputes the reward alone and keeps the ``done`` of the original goal (stable-baselines3 #627). Where episodes
end on success, a transition relabelled to success then bootstraps beyond the end, and a real success relabelled to
another goal is terminal without being one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.names import RELABEL_DONE

Floats = NDArray[np.floating]
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
    :ivar values: values of ``compute_reward`` until there are three: the reward is sparse while there are two.
    :ivar exact: the least reward of a goal that is achieved exactly; None before the first is observed.
    :raises ValueError: unknown mode, or ``success_reward`` is not finite.
    """

    mode: str = "auto"
    ends_on_success: bool | None = None
    success_reward: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in RELABEL_DONE:
            raise ValueError(f"relabel_done={self.mode!r} is unknown; use {', '.join(RELABEL_DONE)}.")
        if self.success_reward is not None and not np.isfinite(self.success_reward):
            raise ValueError(f"success_reward={self.success_reward} is not finite; use a number or None.")
        self.reset()

    def reset(self) -> None:
        """Discard everything observed."""
        self.values: set[float] = set()
        self.exact: float | None = None
        self.ended = self.continued = 0  # transitions that reached their goal, by whether they ended the episode

    @property
    def sparse_values(self) -> list[float]:
        """The two values of a sparse reward, the lower first; empty while it is not known to be sparse."""
        return sorted(self.values) if len(self.values) == 2 else []

    @property
    def threshold(self) -> float | None:
        """The reward at or above which a goal counts as reached; None while it is unknown."""
        if self.success_reward is not None:
            return self.success_reward
        return self.exact if self.exact in self.sparse_values[1:] else None

    @property
    def resolved_mode(self) -> str:
        """The mode with ``auto`` resolved and unknown success considered: ``keep``, ``success`` or ``never``."""
        if self.mode not in ("auto", "success"):
            return self.mode
        ends = self.ends_on_success if self.ends_on_success is not None else self.ended > self.continued
        return "success" if (ends or self.mode == "success") and self.threshold is not None else "keep"

    def observe_exact(self, rewards: Floats) -> None:
        """Record the (n,) rewards of goals equal to the achieved ones, before the first call of :meth:`observe`."""
        self.exact = float(np.min(rewards))
        self.values.update(np.unique(rewards)[:3].tolist())

    def observe(self, goal_rewards: Floats, terminated: Bools) -> None:
        """Record values of the reward, and count whether episodes end on success.

        :param goal_rewards: (n,) ``compute_reward`` under the original goals.
        :param terminated: (n,) whether the transition ended its episode, time-outs excepted.
        """
        if len(self.values) <= 2:
            self.values.update(np.unique(goal_rewards)[:3].tolist())
        reached = self.success(goal_rewards)
        self.ended += int(np.sum(reached & terminated))
        self.continued += int(np.sum(reached & ~terminated))

    def state(self) -> dict[str, Any]:
        """Return everything observed as JSON values."""
        counts = {"ended": self.ended, "continued": self.continued}
        return counts | {"values": sorted(self.values), "exact": self.exact}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a value of :meth:`state`."""
        self.ended, self.continued = int(state["ended"]), int(state["continued"])
        self.values, self.exact = set(state["values"]), state["exact"]

    def success(self, goal_rewards: Floats) -> Bools:
        """Return (n,) whether the goal is reached under these rewards; all False while that is unknown."""
        if (threshold := self.threshold) is None:
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
