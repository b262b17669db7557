"""Numbers that show why an agent does not learn, logged beside Stable-Baselines3's own."""

from collections import deque

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from rlher.envs.episode_diagnostics import OBJECT_MOVED, SUCCESS_AT_RESET

EPISODES = 100
"""Episodes a logged share is taken over, as Stable-Baselines3 does for the success rate."""

SATURATED = 0.99
"""Absolute value, of actions scaled to [-1, 1], above which an action counts as saturated."""


class Diagnostics(BaseCallback):
    """Log ``rollout/object_moved``, ``rollout/success_at_reset`` and ``rollout/action_saturation``.

    The first two are shares of the last :data:`EPISODES` training episodes, see
    :class:`~rlher.envs.episode_diagnostics.EpisodeDiagnostics`. The third is the share of action entries at their
    bounds since the last log.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shares = {name: deque[bool](maxlen=EPISODES) for name in (OBJECT_MOVED, SUCCESS_AT_RESET)}

    @property
    def object_moved(self) -> float | None:
        """Share of the last training episodes in which the achieved goal moved; None where it is not known."""
        moved = self._shares[OBJECT_MOVED]
        return float(np.mean(moved)) if moved else None

    def _on_step(self) -> bool:
        actions = self.locals.get("buffer_actions")
        if actions is not None and np.issubdtype(np.asarray(actions).dtype, np.floating):
            self.logger.record_mean("rollout/action_saturation", float(np.mean(np.abs(actions) > SATURATED)))
        for done, info in zip(self.locals["dones"], self.locals["infos"], strict=True):
            if done:
                for name, values in self._shares.items():
                    if name in info:
                        values.append(bool(info[name]))
                        self.logger.record(f"rollout/{name}", float(np.mean(values)))
        return True
