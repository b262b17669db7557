r"""Controllers for FetchSlide, the first of which tries its strike in the simulator before it makes it.

    PYTHONPATH=scripts rlher collect env=FetchSlide-v4 controller=slide_controller:Slide --episodes 200
    PYTHONPATH=scripts rlher collect env=FetchSlide-v4 controller=slide_controller:VariedSlide --episodes 10696 \
        --output demos/strikes-v0

`Slide` succeeds in 95 % of episodes. Its strikes are fragile: with noise of 0.05 in each action they succeed in 39 %,
so an agent cannot clone them well. `VariedSlide` succeeds in a third, and shows where a puck stops after many kinds of
strikes, from which an agent learns by hindsight; see "FetchSlide" in docs/benchmarks.md.
"""

from typing import Any

import mujoco
import numpy as np

from rlher.playing.controllers import (
    FETCH_GAIN,
    PUSH_CONTACT_HEIGHT,
    PUSH_PLACED,
    PUSH_SAFE_HEIGHT,
    PUSH_TRAVEL_HEIGHT,
    fetch_action,
)


class Strike:
    """Moves the hand behind the puck, strikes it once, and then moves out of its way.

    :param action: (2,) along x and y while the hand strikes; its direction is the way from the hand to the puck.
    :param follow: number of steps for which the hand goes on after the puck has begun to move.
    """

    BEHIND = 0.1
    """Distance from the puck's centre at which the hand comes down, in metres."""
    IN_LINE = 0.008
    """Distance of the hand from the line of the strike up to which it strikes, in metres."""
    MOVES = 0.002
    """Distance that the puck moves in a step from which on it has been struck, in metres."""

    def __init__(self, action: np.ndarray, follow: int) -> None:
        self._action, self._follow, self._has_begun, self._has_struck = action, follow, False, False

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the action (4,)."""
        state = observation["observation"]
        from_puck = state[:3] - state[3:6]
        direction = self._action / np.linalg.norm(self._action)
        along = float(from_puck[:2] @ direction)
        aside = from_puck[:2] - along * direction
        self._has_begun |= bool(
            from_puck[2] < PUSH_CONTACT_HEIGHT and along < 0 and np.linalg.norm(aside) < self.IN_LINE
        )
        puck_movement = state[14:16] + state[20:22]  # relative to the hand's, and the hand's
        self._has_struck |= self._has_begun and bool(np.linalg.norm(puck_movement) > self.MOVES)
        self._follow -= self._has_struck
        if self._follow < 0:
            return fetch_action(np.array([0.0, 0.0, PUSH_TRAVEL_HEIGHT]))
        if self._has_begun:
            return fetch_action(np.append(self._action / FETCH_GAIN - aside, -from_puck[2]))
        to_start = -self.BEHIND * direction - from_puck[:2]
        if np.linalg.norm(to_start) < PUSH_PLACED:
            return fetch_action(2 * np.append(to_start, -from_puck[2]))
        sideways = to_start if from_puck[2] > PUSH_SAFE_HEIGHT / 2 else np.zeros(2)
        return fetch_action(2 * np.append(sideways, PUSH_SAFE_HEIGHT - from_puck[2]))


class Slide:
    """Strikes the puck as the simulator, asked in advance, shows to be right.

    The puck rocks and turns, so no formula says where it stops. A strike is therefore tried in the simulator and, if
    the puck stops too far from the goal, varied, more from try to try. So similar starts get similar strikes, from
    which an agent can learn.
    """

    TRIES = 60
    CLOSE = 0.03
    """Distance from the goal at which the puck may stop, in metres; success is 0.05."""

    def __init__(self, env: Any) -> None:
        self._env, self._steps = env.unwrapped, env.spec.max_episode_steps
        self._strike: Strike | None = None

    def reset(self) -> None:
        """Begin an episode."""
        self._strike = None

    def __call__(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Return the action (4,)."""
        if self._strike is None:
            self._strike = Strike(*self._plan(observation))
        return self._strike(observation)

    def _plan(self, observation: dict[str, np.ndarray]) -> tuple[np.ndarray, int]:
        """Return the arguments of the first strike that stops close enough, or else of the one that stops closest."""
        rng = np.random.default_rng(0)
        best, least = (np.ones(2), 0), np.inf
        for scale in np.linspace(0, 1, self.TRIES):
            strike = _varied_strike(observation, scale * rng.normal(size=3))
            if (miss := self._simulate(observation, Strike(*strike))) < least:
                best, least = strike, miss
            if miss < self.CLOSE:
                break
        return best

    def _simulate(self, observation: dict[str, np.ndarray], strike: Strike) -> float:
        """Return the puck's distance from the goal after an episode, in metres, and leave the environment as it was."""
        env, whole = self._env, mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.empty(mujoco.mj_stateSize(env.model, whole))
        mujoco.mj_getState(env.model, env.data, state, whole)
        goal = observation["desired_goal"]
        for _ in range(self._steps):
            action = strike(observation)
            env._set_action(action)
            env._mujoco_step(action)
            env._step_callback()
            observation = env._get_obs()
        mujoco.mj_setState(env.model, env.data, state, whole)
        mujoco.mj_forward(env.model, env.data)
        return float(np.linalg.norm(observation["achieved_goal"] - goal))


class VariedSlide(Slide):
    """Plans a third of its strikes with fewer tries, and makes random variations of the formula's strike else."""

    TRIES = 25

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._rng = np.random.default_rng(0)

    def _plan(self, observation: dict[str, np.ndarray]) -> tuple[np.ndarray, int]:
        if self._rng.random() < 0.33:
            return super()._plan(observation)
        return _varied_strike(observation, self._rng.normal(size=3))


def _varied_strike(observation: dict[str, np.ndarray], variation: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the arguments of a strike towards the goal whose direction, speed and length are varied.

    :param variation: (3,) in standard deviations.
    """
    x, y, _ = observation["desired_goal"] - observation["achieved_goal"]
    turn, faster, longer = variation * (0.2, 0.25, 4.0)
    distance, angle = np.hypot(x, y), np.arctan2(y, x) + turn
    size = np.clip(1.3 * np.sqrt(distance) * (1 + faster), 0.25, 1.4)
    return size * np.array([np.cos(angle), np.sin(angle)]), max(0, round(12 * distance + longer))
