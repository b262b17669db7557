"""The callback that logs numbers which show why an agent does not learn."""

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from rlher.envs.episode_diagnostics import EPISODE_DIAGNOSTICS

SATURATED = 0.99
"""Absolute value above which an entry of an action, scaled to [-1, 1], counts as saturated."""


class DiagnosticsCallback(BaseCallback):
    """Log ``rollout/object_moved``, ``rollout/success_at_reset`` and ``rollout/action_saturation``.

    The first two are shares of the last 100 training episodes, see
    :class:`~rlher.envs.episode_diagnostics.EpisodeDiagnostics`. The third is the share of action entries at their
    bounds since the last log.
    """

    def _on_step(self) -> bool:
        actions = np.asarray(self.locals["buffer_actions"])
        if np.issubdtype(actions.dtype, np.floating):
            self.logger.record_mean("rollout/action_saturation", float(np.mean(np.abs(actions) > SATURATED)))
        if np.any(self.locals["dones"]):
            for name in EPISODE_DIAGNOSTICS:
                if (share := episode_share(self.model, name)) is not None:
                    self.logger.record(f"rollout/{name}", share)
        return True


def episode_share(model: BaseAlgorithm, name: str) -> float | None:
    """Return the share of the last 100 training episodes with a property, None if it is not known of any."""
    values = [bool(episode[name]) for episode in model.ep_info_buffer or () if name in episode]
    return float(np.mean(values)) if values else None
