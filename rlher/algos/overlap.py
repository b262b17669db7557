"""Updating while the environments step."""

from collections.abc import Callable

from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn


class WorkWhileStepping(VecEnvWrapper):
    """Environments that call a function once they were sent their actions, before their results are waited for.

    The time of the function, or of the step, is saved if the environments have processes of their own. If not, the
    results are the same, and nothing is saved.

    :param work: called in each step.
    """

    def __init__(self, venv: VecEnv, work: Callable[[], None]) -> None:
        super().__init__(venv)
        self._work = work

    def reset(self) -> VecEnvObs:
        """Reset all environments."""
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Call the function, then return the results of a step."""
        self._work()
        return self.venv.step_wait()
