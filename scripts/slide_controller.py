r"""A controller for FetchSlide that drags the puck to near goals and strikes it to far ones.

    PYTHONPATH=scripts rlher collect env=FetchSlide-v4 controller=slide_controller:Slide --episodes 16000 \
        --successes-only --output demos/slide-v0

While it drags, the closed gripper lies on the puck, which stops where the hand stops: 94 % of these episodes succeed.
How far a struck puck slides is measured: the first strikes are random, and later ones are chosen by a regression over
those that ended closest to what is needed. After 500 strikes, 83 % succeed.

Whether a strike can be repeated depends on where the finger meets the puck. If the puck's centre lies off the line of
the strike by 12 mm, on the side to which the hand moves, or by 20 mm on the other side, the puck stops within 2 cm
(standard deviation) along and across, whatever the start. In between it may go either way. The first kind of strike
turns the puck's way towards the x axis, the second one away from it, and together they reach all goals.
"""

from typing import Any

import numpy as np

from rlher.playing.controllers import FETCH_GAIN, fetch_action

ARM_BASE = np.array([0.405, 0.48])
"""Position of the robot on the floor, in metres."""
REACH = 1.0
"""Distance from :data:`ARM_BASE` up to which goals are reached by dragging, in metres."""


def drag(state: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the action (4,) that takes the hand onto the puck, and then drags the puck to the goal.

    :param state: (25,) the environment's ``observation``.
    :param goal: (2,) in metres.
    """
    over, on_top, under_finger = 0.06, 0.048, 0.027
    from_puck = state[:3] - state[3:6]
    sideways = float(np.linalg.norm(from_puck[:2]))
    if from_puck[2] > on_top:
        if sideways < under_finger / 2:
            return fetch_action(np.append(-from_puck[:2], -0.06 if from_puck[2] > over - 0.005 else -0.03))
        return fetch_action(np.append(-1.5 * from_puck[:2], over - from_puck[2]))
    if sideways > under_finger:  # beside the puck: rise before moving over it
        may_move = sideways > 2 * under_finger
        return fetch_action(np.append(-from_puck[:2] * may_move, over - from_puck[2]))
    # The table is soft: the puck is pressed down from 0.414 to 0.39 m, so that it does not slip.
    movement = 2 * (goal - state[3:5]) - 0.6 * from_puck[:2]
    return fetch_action(np.append(movement, np.clip(0.39 - state[5], -0.03, 0.03)))


class Strike:
    """Moves the hand behind the puck, strikes it once, and then rises out of its way.

    :param action: (2,) along x and y while the hand strikes.
    :param aside: distance of the hand from the line through the puck along ``action``, to the left, in metres.
    """

    BEHIND = 0.055
    """Distance from the puck's centre at which the hand starts, in metres."""
    HEIGHT = 0.025
    """Height of the hand above the puck's centre, in metres; lower, the puck rocks more."""
    FOLLOW = 6
    """Steps for which the hand goes on after the puck has begun to move."""
    MOVES = 0.004
    """Distance that the puck moves in a step from which on it has been struck, in metres."""

    def __init__(self, action: np.ndarray, aside: float) -> None:
        self.action = action
        self._along = action / np.linalg.norm(action)
        self._across = np.array([-self._along[1], self._along[0]])
        self._aside = aside
        self._follow, self._has_begun, self._has_struck = self.FOLLOW, False, False

    def __call__(self, state: np.ndarray) -> np.ndarray:
        """Return the action (4,)."""
        over = 0.055
        from_puck = state[:3] - state[3:6]
        along, across = float(from_puck[:2] @ self._along), float(from_puck[:2] @ self._across) - self._aside
        to_start = -(self.BEHIND + along) * self._along - across * self._across
        far, down = float(np.linalg.norm(to_start)), self.HEIGHT - from_puck[2]
        self._has_begun |= bool(down > -0.008 and far < 0.015 and abs(across) < 0.004)
        if self._has_begun:
            puck_movement = state[14:16] + state[20:22]  # relative to the hand's, and the hand's
            self._has_struck |= bool(np.linalg.norm(puck_movement) > self.MOVES)
            self._follow -= self._has_struck
            if self._follow < 0:
                return fetch_action(np.array([0.0, 0.0, 0.12 - from_puck[2]]))
            return fetch_action(np.append(self.action / FETCH_GAIN - across * self._across, down))
        if far < 0.02:
            return fetch_action(1.7 * np.append(to_start, down))
        is_behind = along < -0.03
        may_move = is_behind or from_puck[2] > over - 0.015 or np.linalg.norm(from_puck[:2]) > 0.085
        height = down if is_behind and far < 0.05 else over - from_puck[2]
        return fetch_action(2 * np.append(to_start * may_move, height))


class StrikeTable:
    """Strikes of one kind with where their pucks stopped, from which the next one is chosen.

    All is mirrored so that the goal lies to the left.

    :param aside: as of :class:`Strike`.
    :param turn: angle by which these strikes turn the puck's way, in radians.
    """

    RANDOM = 150
    """Strikes at random before the first one that is chosen."""
    NEIGHBOURS = 16
    """Earlier strikes from which one is chosen."""

    def __init__(self, aside: float, turn: float) -> None:
        self.aside = aside
        self._turn = turn
        self._slides: list[np.ndarray] = []
        """(4,) of each strike: how far the puck slid along x and y, and a quarter of where it started, in metres."""
        self._angles_and_sizes: list[np.ndarray] = []

    def add(self, slide: np.ndarray, action: np.ndarray) -> None:
        """Add a strike."""
        self._slides.append(slide)
        self._angles_and_sizes.append(np.array([np.arctan2(action[1], action[0]), np.hypot(*action)]))

    def choose(self, slide: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the action (2,) of a strike."""
        if len(self._slides) < self.RANDOM:
            angle = np.arctan2(slide[1], slide[0]) - self._turn + 0.08 * rng.normal()
            size = (0.18 + 1.2 * np.hypot(*slide[:2])) * (1 + 0.12 * rng.normal())
            angle, size = np.clip(angle, 0.05, 0.6), np.clip(size, 0.25, 1.3)
        else:
            offsets = np.array(self._slides) - slide
            distances = (offsets**2).sum(axis=1)
            closest = np.argsort(distances)[: self.NEIGHBOURS]
            inputs = np.column_stack([np.ones(len(closest)), offsets[closest]])
            weighted = inputs.T / (distances[closest] + 2e-4)
            ridge = 3e-4 * weighted[0].sum() * np.diag([0, 1, 1, 1, 1])
            outputs = weighted @ np.array(self._angles_and_sizes)[closest]
            angle, size = np.linalg.solve(weighted @ inputs + ridge, outputs)[0]
        return np.clip(size * np.array([np.cos(angle), np.sin(angle)]), -1, 1)


class Slide:
    """Drags the puck if the arm reaches the goal, or else strikes it."""

    WIDE_ANGLE = 0.42
    """Angle between the way to the goal and the x axis from which on the second kind of strike is used, in radians."""
    NOISE = 0.1
    """Standard deviation of the noise in every second drag, so that an agent sees how to correct an error."""

    def __init__(self, env: Any) -> None:
        self._rng = np.random.default_rng(0)
        self._ahead, self._wide = StrikeTable(aside=0.012, turn=-0.16), StrikeTable(aside=-0.02, turn=0.42)
        self._strike: Strike | None = None
        self._state: np.ndarray | None = None

    def reset(self) -> None:
        """Begin an episode, and remember the strike of the last one."""
        if self._strike is not None and self._state is not None and self._state[5] > 0.4:  # it is on the table
            self._table.add(self._slide_to(self._state[3:5]), self._strike.action * self._mirror)
        self._strike = self._state = None
        self._noise = self.NOISE * self._rng.integers(2)

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the action (4,)."""
        goal, is_first = observation["desired_goal"][:2], self._state is None
        self._state = observation["observation"]
        if is_first:
            self._start = self._state[3:5].copy()
            if np.linalg.norm(goal - ARM_BASE) > REACH:
                self._strike = self._plan_strike(goal)
        if self._strike is not None:
            return self._strike(self._state)
        noise = np.append(self._noise * self._rng.normal(size=3), 0)
        return np.clip(drag(self._state, goal) + noise, -1, 1).astype(np.float32)

    def _plan_strike(self, goal: np.ndarray) -> Strike:
        x, y = goal - self._start
        self._mirror = np.array([1.0, 1.0 if y >= 0 else -1.0])
        self._table = self._ahead if np.arctan2(abs(y), x) < self.WIDE_ANGLE else self._wide
        action = self._table.choose(self._slide_to(goal), self._rng)
        return Strike(action * self._mirror, self._table.aside * self._mirror[1])

    def _slide_to(self, end: np.ndarray) -> np.ndarray:
        centred = self._start - np.array([1.0, 0.75])
        return np.append((end - self._start) * self._mirror, centred * self._mirror / 4)
