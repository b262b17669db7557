"""Running normalisation of goal-environment observations."""

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

GOALS = ("achieved_goal", "desired_goal")

MIN_STD = 1e-2
"""Lower bound of a feature's standard deviation, as in OpenAI baselines, so that noise is not amplified."""


class RunningScale(RunningMeanStd):
    """Running mean square in place of the variance; the mean is 0."""

    def update_from_moments(self, batch_mean: np.ndarray, batch_var: np.ndarray, batch_count: float) -> None:
        """Add the moments of a batch."""
        total = self.count + batch_count
        self.var = (self.var * self.count + (batch_var + batch_mean**2) * batch_count) / total
        self.count = total


class GoalNormalize(VecNormalize):
    """SB3's VecNormalize for goal environments: rewards untouched, one normaliser for both goals.

    The network reads achieved and desired goals in the same coordinates, because hindsight replaces one by the other;
    OpenAI baselines has a single normaliser ``g`` for the same reason.

    ``infos[i]["raw_terminal_observation"]`` is the last observation of an episode without normalisation:
    VecNormalize's ``terminal_observation`` is clipped, which cannot be undone.

    :param clip: bound of a normalised entry, in standard deviations (5 in OpenAI baselines).
    :param training: whether steps update the statistics.
    :param goal_parts: equal parts of a goal (:mod:`rlher.envs.relay`). With more than one, goals are scaled by the
        achieved goals of all parts, and not centred, so that the zeros of an unused part stay zeros. With statistics of
        each part, zeros included, no seed of FetchPickAndPlace learned to lift (docs/benchmarks.md).
    """

    def __init__(self, venv: VecEnv, clip: float = 5.0, training: bool = True, goal_parts: int = 1) -> None:
        super().__init__(
            venv,
            training=training,
            norm_reward=False,
            clip_obs=clip,
            epsilon=MIN_STD**2,
            norm_obs_keys=[name for name, space in venv.observation_space.spaces.items() if _is_vector(space)],  # type: ignore[attr-defined]
        )
        self._goal_parts = goal_parts
        if all(goal in self.obs_rms for goal in GOALS):
            if goal_parts > 1:
                self.obs_rms["achieved_goal"] = RunningScale(shape=self.obs_rms["achieved_goal"].mean.shape)
            self.obs_rms["desired_goal"] = self.obs_rms["achieved_goal"]

    def reset(self) -> dict[str, np.ndarray]:
        """Reset, update the statistics and normalise."""
        obs = self.venv.reset()
        assert isinstance(obs, dict)
        self.old_obs = obs
        if self.training:
            self.update(obs)
        return self.normalize_obs(obs)

    def step_wait(self) -> VecEnvStepReturn:
        """Step, update the statistics and normalise; see the class for the added key of ``infos``."""
        obs, rewards, dones, infos = self.venv.step_wait()
        assert isinstance(obs, dict)
        self.old_obs, self.old_reward = obs, rewards
        if self.training:
            self.update(obs)
        for index in np.flatnonzero(dones):
            raw = infos[index]["terminal_observation"]
            infos[index]["raw_terminal_observation"] = raw
            infos[index]["terminal_observation"] = self.normalize_obs(raw)
        return self.normalize_obs(obs), rewards, dones, infos

    def update(self, obs: dict[str, np.ndarray]) -> None:
        """Update the statistics with (n, …) observations by key, not normalised."""
        for name, statistics in self.obs_rms.items():
            if self._goal_parts == 1 or name not in GOALS:
                statistics.update(obs[name])
            elif name == "achieved_goal":
                parts = obs[name].reshape(len(obs[name]) * self._goal_parts, -1)
                statistics.update(np.tile(parts, self._goal_parts))

    def normalize_obs(self, obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:  # type: ignore[override]
        """Return the observations, of any leading shape, normalised; neither statistics nor ``obs`` change."""
        return {
            name: self._normalize_obs(value, self.obs_rms[name]).astype(np.float32) if name in self.obs_rms else value
            for name, value in obs.items()
        }

    def state(self) -> dict[str, np.ndarray]:
        """Return the statistics as plain arrays, keyed ``<observation key>/mean``, ``/var`` and ``/count``."""
        return {
            f"{name}/{field}": np.asarray(getattr(rms, field))
            for name, rms in self.obs_rms.items()
            for field in ("mean", "var", "count")
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Load statistics returned by :meth:`state`.

        :raises KeyError: an entry is missing.
        :raises ValueError: an entry has another shape than the observation it belongs to.
        """
        for name, rms in self.obs_rms.items():
            mean, var, count = (state[f"{name}/{field}"] for field in ("mean", "var", "count"))
            if mean.shape != rms.mean.shape or var.shape != rms.var.shape:
                raise ValueError(f"statistics of {name} have shape {mean.shape}, not {rms.mean.shape}")
            if {mean.dtype.kind, var.dtype.kind, count.dtype.kind} != {"f"}:
                raise ValueError(f"statistics of {name} are not floats")
            rms.mean, rms.var, rms.count = mean, var, float(count)


def _is_vector(space: Any) -> bool:
    return isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and not is_image_space(space)
