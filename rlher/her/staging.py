"""Where one step of every environment is put together before it is stored."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rlher.her.layout import ACHIEVED, GOAL, Layout


class Stage:
    """One packed row per environment, and views to fill it by.

    :param layout: types and shapes of what is stored.
    :param n_envs: environments.
    """

    def __init__(self, layout: Layout, n_envs: int) -> None:
        self.n_envs = n_envs
        self.rows = np.zeros(n_envs, dtype=layout.row)
        self.achieved = layout.achieved_goals(n_envs)
        self.goal = layout.goals(n_envs)
        views = {name: self.rows[name] for name in layout.row.names or ()}
        self.own = {name: view for name, view in views.items() if name.startswith("_")}
        self._views = [(name, view) for name, view in views.items() if not name.startswith("_")]
        self._views += [(ACHIEVED, self.achieved), (GOAL, self.goal)]
        raw = self.rows.view(np.uint8).reshape(n_envs, layout.row.itemsize)
        seen = [raw[:, : layout.row.fields["_action"][1]], self.goal]  # type: ignore[index]
        self._to_see = seen if layout.in_row else [*seen, self.achieved]

    def observe(self, obs: Mapping[str, NDArray]) -> None:
        """Take (n_envs, …) observations by key."""
        for key, view in self._views:
            value = np.asarray(obs[key])
            view[...] = value if value.shape == view.shape else value.reshape(view.shape)

    def seen(self) -> list[bytes]:
        """Return the observations of all environments as bytes, to compare; the goals are the second."""
        return [part.tobytes() for part in self._to_see]

    def share(self, seen: list[bytes], env: int) -> list[bytes]:
        """Return one environment's share of what :meth:`seen` returned."""
        return [part[env * len(part) // self.n_envs : (env + 1) * len(part) // self.n_envs] for part in seen]
