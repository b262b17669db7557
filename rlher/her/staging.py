"""One step of every environment, packed into rows before it is stored."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rlher.her.layout import ACHIEVED, GOAL, Layout


class Stage:
    """One packed row per environment, with writable views of its fields.

    :param layout: types and shapes of what is stored.
    :param n_envs: number of environments.
    """

    def __init__(self, layout: Layout, n_envs: int) -> None:
        self.n_envs = n_envs
        self.rows = np.zeros(n_envs, dtype=layout.row)
        self.achieved = layout.achieved_goals(n_envs)
        self.goal = layout.goals(n_envs)
        views = {name: self.rows[name] for name in layout.row.names or ()}
        self.episode = views["_episode"]
        self._action, self._reward, self._terminated = views["_action"], views["_reward"], views["_terminated"]
        self._observation = [(name, view) for name, view in views.items() if not name.startswith("_")]
        self._observation += [(ACHIEVED, self.achieved), (GOAL, self.goal)]
        raw = self.rows.view(np.uint8).reshape(n_envs, layout.row.itemsize)
        compared = [raw[:, : layout.row.fields["_action"][1]], self.goal]  # type: ignore[index]
        self._compared = compared if layout.in_row else [*compared, self.achieved]

    def observe(self, obs: Mapping[str, NDArray]) -> None:
        """Write (n_envs, …) observations by key into the rows."""
        for key, view in self._observation:
            value = np.asarray(obs[key])
            view[...] = value if value.shape == view.shape else value.reshape(view.shape)

    def write(self, action: NDArray, reward: NDArray, terminated: NDArray | bool) -> None:
        """Write (n_envs, …) actions, rewards and whether the steps are terminal into the rows."""
        into = self._action
        into[...] = action if action.shape == into.shape else action.reshape(into.shape)
        self._reward[...] = reward
        self._terminated[...] = terminated

    def observed(self) -> list[bytes]:
        """Return the observations of all environments as bytes, for comparison; the goals are the second item."""
        return [part.tobytes() for part in self._compared]

    def part_of_env(self, observed: list[bytes], env: int) -> list[bytes]:
        """Return one environment's part of a value of :meth:`observed`."""
        return [part[env * len(part) // self.n_envs : (env + 1) * len(part) // self.n_envs] for part in observed]
