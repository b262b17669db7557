"""Environments that can be brought back to where they were, though hardly any environment can save its state."""

from collections.abc import Callable, Sequence

import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn


class Repeatable(VecEnvWrapper):
    """Builds its environments anew when asked, each time with a seed of its own, and remembers the actions since.

    Built, not reset: what a reset may leave as it was, such as a counter or a solver's warm start, is gone too. From
    the seed and the actions an environment that keeps its promise of repeatability comes back bit for bit.

    :param build: makes the vectorised environments from a seed.
    :param seed: of the first ones; later ones have seeds that follow from it and their number.
    """

    def __init__(self, build: Callable[[int], VecEnv], seed: int) -> None:
        self._build, self._seed = build, seed
        super().__init__(build(seed))
        self.number = 0
        self._restarts = 0  # of those before
        self.actions: list[np.ndarray] = []

    @property
    def all_restarts(self) -> int:
        """Processes that were replaced so far, of all environments there have been."""
        return self._restarts + getattr(self.venv, "restarts", 0)

    def renew(self, number: int) -> None:
        """Close the environments and build the ``number``-th ones, counted from 0; they want a reset."""
        self._restarts = self.all_restarts
        self.venv.close()
        seeds = np.random.SeedSequence([self._seed, number])
        self.venv = self._build(int(seeds.generate_state(1)[0]) if number else self._seed)
        self.number, self.actions = number, []

    def repeat(self, actions: Sequence[np.ndarray]) -> VecEnvObs:
        """Reset and play those actions; return the (n_envs, …) observations they lead to."""
        observations = self.reset()
        for action in actions:
            observations = self.step(action)[0]
        return observations

    def reset(self) -> VecEnvObs:
        """Reset all."""
        observations = self.venv.reset()
        self.reset_infos = self.venv.reset_infos
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Send the actions."""
        self.actions.append(np.array(actions))
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for all."""
        return self.venv.step_wait()
