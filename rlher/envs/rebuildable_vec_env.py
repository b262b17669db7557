"""Training environments that are built again, to continue from a checkpoint or to replace lost worker processes."""

from collections.abc import Callable, Sequence

import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from rlher.core.workers import RestartLimit, WorkerLost
from rlher.envs.vec_env import seed_envs


class RebuildableVecEnv(VecEnvWrapper):
    """Rebuilds its environments from known seeds, and repeats actions to return to a point within an episode.

    Recorded actions are repeated because few environments can save their state.

    Unlike a reset, rebuilding also clears counters and a solver's warm start. So seed and actions restore a
    deterministic environment bit for bit.

    If a worker process is lost, :meth:`replace_lost` replaces all of them.

    :param build: function that makes the vectorised environments from a seed.
    :param seed: seed of the first environments. Seeds of rebuilt environments derive from it and the build number.
    :param max_restarts: how often processes may be lost without a finished episode in between.
    :param records_actions: whether to record the actions for a checkpoint.
    """

    def __init__(
        self, build: Callable[[int], VecEnv], seed: int, max_restarts: int, records_actions: bool = True
    ) -> None:
        self._build = build
        self._seed = seed
        self.restart_limit = RestartLimit(max_restarts)
        self._records_actions = records_actions
        super().__init__(build(seed))
        self.build_number = 0
        self.actions: list[np.ndarray] = []

    def rebuild(self, build_number: int | None = None, actions: Sequence[np.ndarray] = ()) -> VecEnvObs:
        """Build environments, reset them, take actions, and return the last observations (n_envs, …).

        If a process is lost meanwhile, all environments are built again. The seeds derive from the run's seed, so that
        a run with the same losses repeats itself.

        :param build_number: number of the build; 0 at the beginning of a run. If None, the next number.
        :param actions: for each step, (n_envs, …) actions.
        :raises RunError: processes were lost too often.
        """
        while True:
            number = self.build_number + 1 if build_number is None else build_number
            try:
                self.venv.close()
                derived = np.random.SeedSequence([self._seed, number]).generate_state(1).item()
                self.venv = self._build(derived if number else self._seed)
                self.build_number, self.actions = number, list(actions)
                observations = self.venv.reset()
                for action in actions:  # not `self.step`, which resets the count of restarts
                    observations = self.venv.step(action)[0]
                return observations
            except WorkerLost as lost:
                self.restart_limit.count_restart(lost)

    def replace_lost(self, lost: WorkerLost) -> VecEnvObs:
        """Build the next environments because a process was lost, and return their first observations.

        :raises RunError: processes were lost too often.
        """
        self.restart_limit.count_restart(lost)
        return self.rebuild()

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the environments with :func:`seed_envs`; the model calls this when it is built."""
        return seed_envs(self.venv, seed)

    def reset(self) -> VecEnvObs:
        """Reset all environments; build them again if a process is lost meanwhile."""
        try:
            return self.venv.reset()
        except WorkerLost as lost:
            return self.replace_lost(lost)

    def step_async(self, actions: np.ndarray) -> None:
        """Record and send the actions."""
        if self._records_actions:
            self.actions.append(np.array(actions))
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the results of a step."""
        results = self.venv.step_wait()
        if results[2].any():
            self.restart_limit.episode_finished()
        return results
