"""The progress bar of the commands that play episodes; it is shown on a terminal only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rlher.config.environment import EnvConfig
from rlher.core.console import can_redraw
from rlher.evaluation.rollout import Episode, Observation


class EpisodeBar:
    """Shows how many episodes have been played, and then how many frames of a video have been written.

    :param config: of the environment; its ``episode_steps`` is the length of an episode still to play.
    """

    def __init__(self, progress: Progress, episodes: int, config: EnvConfig) -> None:
        self._progress, self._episodes, self._played = progress, episodes, 0
        self._longest = config.episode_steps or 0
        self._task = progress.add_task("", total=episodes)

    def on_step(self, episode: Episode, observation: Observation, is_over: bool) -> None:
        """Show an episode's step; an ``on_step`` function of :func:`rlher.evaluation.rollout.play_episodes`."""
        text = f"episode {self._played + 1}/{self._episodes}, step {episode.length}"
        self._played += is_over
        part = min(episode.length / self._longest, 1.0) if self._longest and not is_over else 0.0
        self._progress.update(self._task, total=self._episodes, completed=self._played + part, description=text)

    def on_frame(self, number: int, total: int) -> None:
        """Show that a frame of the video was written, the first with number 1."""
        if number == 1:
            self._progress.reset(self._task)  # writing has another speed than playing
        self._progress.update(self._task, total=total, completed=number, description=f"writing frame {number}/{total}")


@contextmanager
def episode_bar(episodes: int, config: EnvConfig, enabled: bool = True) -> Iterator[EpisodeBar]:
    """Show a bar within the block, if stderr is a terminal.

    :param episodes: number of episodes that are played in the block.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    progress = Progress(
        *columns,
        console=Console(stderr=True),
        disable=not (enabled and can_redraw(sys.stderr)),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # otherwise printed lines would go to stderr
    )
    with progress:
        yield EpisodeBar(progress, episodes, config)
