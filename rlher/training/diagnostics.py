"""A callback that logs why an agent does not learn."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from rlher.envs.episode_info import EPISODE_DIAGNOSTICS
from rlher.envs.rebuildable_vec_env import RebuildableVecEnv

SATURATED = 0.99
"""Absolute value above which an entry of an action, scaled to [-1, 1], counts as saturated."""


class DiagnosticsCallback(BaseCallback):
    """Log ``rollout/object_moved``, ``rollout/success_at_reset``, ``rollout/action_saturation`` and ``env/restarts``.

    The first two are shares of the last 100 training episodes, see
    :class:`~rlher.envs.episode_info.RecordEpisodeInfo`. The third is the share of action entries at their
    bounds since the last log. The last is the number of worker processes that were replaced.
    """

    training_env: RebuildableVecEnv
    model: Any

    def _on_step(self) -> bool:
        actions = np.asarray(self.locals["buffer_actions"])
        if np.issubdtype(actions.dtype, np.floating):
            self.logger.record_mean("rollout/action_saturation", float(np.mean(np.abs(actions) > SATURATED)))
        # SB3 adds the episodes that end in this step to its buffer, and logs, after the callbacks
        if ended := [info["episode"] for info in self.locals["infos"] if "episode" in info]:
            self.logger.record("env/restarts", self.training_env.restart_limit.total)
            episodes = [*(self.model.ep_info_buffer or ()), *ended][-self.model._stats_window_size :]
            for name in EPISODE_DIAGNOSTICS:
                if (share := episode_share(episodes, name)) is not None:
                    self.logger.record(f"rollout/{name}", share)
        return True


def episode_share(episodes: Iterable[dict[str, Any]], name: str) -> float | None:
    """Return the share of episodes with a property, None if it is not known of any."""
    values = [bool(episode[name]) for episode in episodes if name in episode]
    return float(np.mean(values)) if values else None
