"""Limit on how often worker processes of an environment are replaced, and the message about each replacement."""

from rlher.core.console import warn
from rlher.core.errors import RunError
from rlher.core.workers import WorkerLost


class RestartLimit:
    """Counts how often processes of an environment were replaced since its last finished episode.

    :param limit: largest number of replacements without a finished episode in between.
    :ivar total: number of all replacements.
    """

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._limit = limit
        self._restarts = 0

    def episode_finished(self) -> None:
        """Count from 0 again."""
        self._restarts = 0

    def count_restart(self, lost: WorkerLost, where: str = "") -> None:
        """Count a replacement, and print that a new process replaces the lost one.

        :param where: text for the message, such as " in the episode of seed 7".
        :raises RunError: the limit is reached.
        """
        loss = f"{lost}{where}"
        if self._restarts == self._limit:
            raise RunError(f"{loss}, after env.max_restarts={self._limit} restarts without a finished episode.")
        self._restarts += 1
        self.total += 1
        warn(f"{loss}; a new process replaces it (see env.step_timeout).")
