"""What is written under a picture: episode, step, how far the goal is, and how it ended."""

from collections.abc import Callable
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rlher.config.environment import EnvConfig
from rlher.evaluation.rollout import Episode, Observation

FONT_SIZE, LINE, MARGIN = 13, 17, 6
HEIGHT = 2 * LINE + MARGIN
PAPER, INK = (38, 42, 46), (236, 236, 236)
PAPER_OF_OUTCOME = {
    "success": (30, 132, 73),
    "crashed": (176, 58, 46),
    "reached, then left": (154, 102, 18),
    "missed": (98, 104, 110),
}
MOST_NUMBERS = 3  # of a goal that can be read at a glance

GoalText = Callable[[Observation], list[str]]


def captioned(picture: np.ndarray, number: int, episode: Episode, over: bool, goal: list[str]) -> np.ndarray:
    """Return a picture with a strip of two lines under it, whose colour tells the outcome.

    :param picture: (height, width, 3), uint8.
    :param number: of the episode, as people count.
    :param episode: so far.
    :param over: whether it has ended.
    :param goal: what to say of the goal, the most important first.
    :return: (height + :data:`HEIGHT`, width, 3), uint8.
    """
    paper = PAPER_OF_OUTCOME[episode.outcome] if over else PAPER
    strip = Image.new("RGB", (picture.shape[1], HEIGHT), paper)
    steps = f"{episode.length} step{'s' if episode.length != 1 else ''}"
    now = [f"{episode.outcome}, {steps}", episode.outcome] if over else [f"step {episode.length}", str(episode.length)]
    _line(strip, 0, [f"episode {number}", f"#{number}", ""], now)
    _line(strip, 1, goal[:1], [*goal[1:], ""])
    return np.concatenate([picture, np.asarray(strip)])


def _line(strip: Image.Image, number: int, left: list[str], right: list[str]) -> None:
    """Write the longest of the texts that fit side by side, those on the right before those on the left."""
    pen, font, room = ImageDraw.Draw(strip), _font(), strip.width - 2 * MARGIN
    pairs = [(one, two) for two in right for one in left]
    fits = (pair for pair in pairs if sum(map(font.getlength, pair)) + 2 * MARGIN * all(pair) <= room)
    one, two = next(fits, pairs[-1])
    top = MARGIN // 2 + number * LINE
    pen.text((MARGIN, top), one, INK, font)
    pen.text((strip.width - MARGIN - font.getlength(two), top), two, INK, font)


@cache
def _font() -> Any:
    return ImageFont.load_default(FONT_SIZE)


def goal_text(config: EnvConfig, env: gym.Env) -> GoalText:
    """Return what to say of the goal of an observation, in the measure that means something in this environment.

    Where the reward is a distance, as parking's, it is that; of bits it is how many are wrong; else it is the distance
    between the goals, and the goal itself where it is a few numbers.

    :param config: its ``reward_range`` and ``success_reward`` are used.
    :param env: asked for ``compute_reward``.
    """
    space: Any = env.observation_space
    desired = space["desired_goal"]
    low, high = config.reward_range or (0.0, 0.0)
    if low is None and config.success_reward != high:
        return lambda seen: _reward_text(config, env, seen)
    if isinstance(desired, gym.spaces.Box) and (desired.low == 0).all() and (desired.high == 1).all():
        return _bits_text
    return _distance_text


def _reward_text(config: EnvConfig, env: gym.Env, seen: Observation) -> list[str]:
    reward = env.get_wrapper_attr("compute_reward")(seen["achieved_goal"], seen["desired_goal"], {})
    target = [] if config.success_reward is None else [f"goal at {-config.success_reward:.2f}"]
    return [f"distance {-float(reward):.2f}", *target]


def _bits_text(seen: Observation) -> list[str]:
    achieved, desired = seen["achieved_goal"], seen["desired_goal"]
    if not np.isin([achieved, desired], (0, 1)).all():
        return _distance_text(seen)
    return [f"{int((achieved != desired).sum())} of {desired.size} bits wrong"]


def _distance_text(seen: Observation) -> list[str]:
    achieved, desired = (np.asarray(seen[name], dtype=np.float64) for name in ("achieved_goal", "desired_goal"))
    numbers = [f"goal {' '.join(f'{value:.2f}' for value in desired.flat)}"] if desired.size <= MOST_NUMBERS else []
    return [f"distance {np.linalg.norm(achieved - desired):.3f}", *numbers]
