"""Restoring running episodes by replaying their actions, because few environments can save their state."""

from collections.abc import Callable, Sequence

import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn


class ReplayableVecEnv(VecEnvWrapper):
    """Rebuilds its environments with known seeds, and records the actions since.

    Rebuilding, unlike a reset, also clears counters or a solver's warm start. A deterministic environment is restored
    bit for bit from seed and actions.

    :param build: makes the vectorised environments from a seed.
    :param seed: of the first environments; the seeds of later ones derive from it and their number.
    :param records: record the actions, for a checkpoint.
    """

    def __init__(self, build: Callable[[int], VecEnv], seed: int, records: bool = True) -> None:
        self._build, self._seed, self._records = build, seed, records
        super().__init__(build(seed))
        self.number = 0
        self._earlier_restarts = 0  # of environments before the last rebuild
        self.actions: list[np.ndarray] = []

    @property
    def total_restarts(self) -> int:
        """Worker processes replaced so far, including those of earlier builds."""
        return self._earlier_restarts + getattr(self.venv, "restarts", 0)

    def rebuild(self, number: int) -> None:
        """Close the environments and build the ``number``-th ones, counted from 0; call ``reset`` next."""
        self._earlier_restarts = self.total_restarts
        self.venv.close()
        seeds = np.random.SeedSequence([self._seed, number])
        self.venv = self._build(int(seeds.generate_state(1)[0]) if number else self._seed)
        self.number, self.actions = number, []

    def replay(self, actions: Sequence[np.ndarray]) -> VecEnvObs:
        """Reset and take the given actions; return the last observations (n_envs, …)."""
        observations = self.reset()
        for action in actions:
            observations = self.step(action)[0]
        return observations

    def reset(self) -> VecEnvObs:
        """Reset all environments."""
        observations = self.venv.reset()
        self.reset_infos = self.venv.reset_infos
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Record and send the actions."""
        if self._records:
            self.actions.append(np.array(actions))
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the results of a step."""
        return self.venv.step_wait()
