"""What a new goal does to reward and done.

SB3 recomputes the reward alone. Two things go wrong with that:

* ``done`` stays the old goal's (stable-baselines3 #627): where episodes end on success, a transition
  relabelled to success goes on bootstrapping, and a real success relabelled to another goal is terminal
  without being one.
* reward that no goal explains is lost (openai/baselines #720, HighwayEnv #473): parking's crash penalty is
  not in ``compute_reward``, so a relabelled crash is both cheap and terminal.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlher.her.choices import RELABEL_DONE

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]

ROUNDING = 1e-5
"""Differences of reward below this (relative above 1) are rounding: goals are stored as float32."""


def goal_independent(stored: Floats, explained: Floats) -> Floats:
    """Return the part of the stored reward that ``compute_reward`` does not explain, 0 where it explains all.

    :param stored: (n,) rewards the environment's ``step`` paid.
    :param explained: (n,) ``compute_reward`` of the same transitions and their original goals.
    """
    rest = np.asarray(stored, dtype=np.float64) - explained
    return np.where(np.abs(rest) <= ROUNDING * np.maximum(1.0, np.abs(stored)), 0.0, rest)


@dataclass
class DoneRule:
    """Decides ``done`` of virtual transitions.

    :param mode: one of :data:`RELABEL_DONE`. ``keep``: as collected (SB3's). ``success``: where the new goal
        is reached, and where the episode was terminated by something other than reaching the old goal, such
        as a crash. ``never``: nowhere. ``auto``: ``success`` where episodes end on success, else ``keep``.
    :param ends_on_success: whether success terminates an episode. None: judged from what is stored, by
        whether most of the transitions that reached their goal were terminal; until one did, ``auto`` means
        ``keep``.
    :param success_reward: ``compute_reward`` at or above which a goal counts as reached. None: taken from the
        reward where it is sparse, that is, where at most two values have been seen and the greater is what a
        goal earns that is achieved exactly; with more values the reward is dense, success is unknown, and
        ``keep`` is in force.
    :raises ValueError: unknown mode.
    """

    mode: str = "auto"
    ends_on_success: bool | None = None
    success_reward: float | None = None
    _values: set[float] = field(default_factory=set)  # of compute_reward, at most three
    _perfect: float | None = None  # the least that was paid for a goal achieved exactly
    _ended: int = 0
    _went_on: int = 0

    def __post_init__(self) -> None:
        if self.mode not in RELABEL_DONE:
            raise ValueError(f"relabel_done={self.mode!r} is not one of {', '.join(RELABEL_DONE)}.")

    @property
    def learns(self) -> bool:
        """Whether :meth:`observe` still has something to find out."""
        return self.mode in ("auto", "success") and (
            (self.success_reward is None and len(self._values) <= 2)
            or (self.ends_on_success is None and self.mode == "auto")
        )

    @property
    def needs_perfect(self) -> bool:
        """Whether :meth:`observe` asks for the rewards of goals achieved exactly: the first time."""
        return self.success_reward is None and self._perfect is None

    @property
    def in_force(self) -> str:
        """``keep``, ``success`` or ``never``: the mode with ``auto`` and unknown success resolved."""
        if self.mode not in ("auto", "success"):
            return self.mode
        ends = self.ends_on_success if self.ends_on_success is not None else self._ended > self._went_on
        return "success" if (ends or self.mode == "success") and self._threshold() is not None else "keep"

    def observe(self, explained: Floats, perfect: Floats | None, terminated: Bools) -> None:
        """Learn from transitions with their original goals.

        :param explained: (n,) ``compute_reward`` of what was achieved and the original goal.
        :param perfect: (n,) ``compute_reward`` of what was achieved and the same as goal, if it was asked for.
        :param terminated: (n,) whether the transition ended its episode, time-outs excepted.
        """
        if perfect is not None:
            self._perfect = float(np.min(perfect))
            self._values.update(np.unique(perfect)[:3].tolist())
        if len(self._values) <= 2:
            self._values.update(np.unique(explained)[:3].tolist())
        reached = self.success(explained)
        self._ended += int(np.sum(reached & terminated))
        self._went_on += int(np.sum(reached & ~terminated))

    def state(self) -> dict[str, Any]:
        """Return what was observed, as JSON values."""
        seen = {"values": sorted(self._values), "perfect": self._perfect}
        return seen | {"ended": self._ended, "went_on": self._went_on}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state` returned.

        :raises ValueError: it holds rewards that are no numbers.
        """
        values, perfect = state["values"], state["perfect"]
        if not all(isinstance(value, int | float) for value in [*values, *([] if perfect is None else [perfect])]):
            raise ValueError("a reward that is no number")
        self._values, self._perfect = set(values), perfect
        self._ended, self._went_on = int(state["ended"]), int(state["went_on"])

    def _threshold(self) -> float | None:
        if self.success_reward is not None:
            return self.success_reward
        sparse = len(self._values) == 2 and self._perfect == max(self._values)
        return self._perfect if sparse else None

    def success(self, explained: Floats) -> Bools:
        """Return (n,) whether those rewards mean that the goal is reached; all False while unknown."""
        threshold = self._threshold()
        if threshold is None:
            return np.zeros(len(explained), dtype=bool)
        return np.asarray(explained >= threshold - ROUNDING * max(1.0, abs(threshold)))

    def done(self, explained: Floats, terminated: Bools, stored: Floats, rest: Floats) -> Bools:
        """Return (n,) ``done`` of virtual transitions.

        :param explained: (n,) ``compute_reward`` under the new goals, without any goal-independent part.
        :param terminated: (n,) whether the transition as collected was terminal, time-outs excepted.
        :param stored: (n,) rewards as collected.
        :param rest: (n,) the goal-independent part of those.
        """
        mode = self.in_force
        if mode == "keep":
            return terminated
        if mode == "never":
            return np.zeros(len(terminated), dtype=bool)
        done = self.success(explained)
        ended = np.flatnonzero(terminated)
        if ended.size:  # a failure, such as a crash, stays terminal under any goal
            done[ended] |= ~self.success(stored[ended] - rest[ended])
        return done
