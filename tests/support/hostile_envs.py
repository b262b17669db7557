"""Small goal environments that each violate the contract in one way; importing this module registers them."""

import ctypes
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlher.config.environment import EnvConfig


class LineEnv(gym.Env):
    """Walk along a line to a point: reward -1 per step, 0 at the goal, which ends the episode. The valid base class."""

    ends_on_success = True

    def __init__(self) -> None:
        box = spaces.Box(-10.0, 10.0, (1,), dtype=np.float32)
        self.observation_space: spaces.Space = spaces.Dict(observation=box, achieved_goal=box, desired_goal=box)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), dtype=np.float32)
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.position, self.goal = (self.np_random.uniform(-2, 2, 1).astype(np.float32) for _ in range(2))
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        self.position = np.clip(self.position + np.asarray(action, np.float32), -10, 10)
        reward = self.paid(action, self.compute_reward(self.position, self.goal, {}))
        success = bool(np.abs(self.position - self.goal) < 0.3)
        return self.observe(), reward, success and self.ends_on_success, False, self.info(success)

    def compute_reward(self, achieved_goal, desired_goal, info) -> Any:
        return -(np.linalg.norm(achieved_goal - desired_goal, axis=-1) >= 0.3).astype(np.float32)

    def observe(self) -> Any:
        return {
            "observation": self.position.copy(),
            "achieved_goal": self.position.copy(),
            "desired_goal": self.goal.copy(),
        }

    def paid(self, action, reward) -> Any:
        """Return the reward of a step, given that of ``compute_reward``."""
        return reward

    def info(self, success: bool) -> dict[str, Any]:
        return {"is_success": success}


class RaisesInStep(LineEnv):
    def step(self, action):
        if self.steps == 3:
            raise ValueError("the motor is on fire")
        return super().step(np.zeros(1))


class RaisesInReset(LineEnv):
    resets = 0

    def reset(self, **kwargs):
        self.resets += 1
        if self.resets > 1:
            raise ValueError("nothing left to reset")
        return super().reset(**kwargs)


class RaisesInInit(LineEnv):
    def __init__(self) -> None:
        raise ValueError("no licence")


FAILURES = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(7),
    "hang": lambda: time.sleep(1000),
    "wait": lambda: time.sleep(0.4),
}


class FailingWorker(LineEnv):
    """Fails in a worker process, but not in the main process, where the contract check runs it.

    :param how: failure, a key of ``FAILURES``.
    :param marks: folder with one file per failure so far.
    :param times: number of failures, after which it works.
    :param at: step of an episode; 0: any step.
    :param chance: probability of failure at that step.
    :param where: ``step``, ``init`` or ``close``.
    """

    def __init__(
        self, how: str = "kill", marks: str = ".", times: int = 1, at: int = 3, chance: float = 1.0, where: str = "step"
    ) -> None:
        super().__init__()
        self.fail, self.marks, self.times, self.at, self.chance = FAILURES[how], Path(marks), times, at, chance
        self.where = where
        self.fail_if_due("init")

    def step(self, action):
        if self.at in (0, self.steps + 1):
            self.fail_if_due("step")
        return super().step(action)

    def close(self):
        self.fail_if_due("close")

    def fail_if_due(self, where):
        may_fail = multiprocessing.parent_process() is not None and where == self.where
        if may_fail and random.random() < self.chance:
            for number in range(self.times):
                try:
                    (self.marks / str(number)).touch(exist_ok=False)
                except FileExistsError:
                    continue
                self.fail()
                return


class FaultOnceFileExists(LineEnv):
    """Works until a file exists, and then fails at the second step of an episode.

    :param how: failure: ``raise``, ``exit``, ``reset``, ``reward`` or ``observation``.
    :param once: the file.
    :param where: kind of process it fails in: ``main`` or ``worker``.
    """

    def __init__(self, how: str = "raise", once: str = "nowhere", where: str = "main") -> None:
        super().__init__()
        kind = "main" if multiprocessing.parent_process() is None else "worker"
        self.how, self.once, self.may_fail = how, Path(once), where == kind

    def reset(self, **kwargs):
        if self.how == "reset" and self.may_fail and self.once.exists():
            raise OSError("the cable is loose")
        return super().reset(**kwargs)

    def step(self, action):
        observation, reward, *rest = super().step(action)
        if self.may_fail and self.steps == 2 and self.once.exists():
            if self.how == "exit":
                sys.exit(0)
            if self.how == "raise":
                raise ValueError("the motor is on fire")
            if self.how == "reward":
                reward = float("-inf")
            if self.how == "observation":
                observation["observation"][0] = np.inf
        return observation, reward, *rest


class Crashes(LineEnv):
    """A crash costs 5 more and ends the episode; compute_reward does not include it."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        crashed = bool(abs(self.position[0]) > 2.0)
        return observation, reward - 5.0 * crashed, terminated or crashed, truncated, info | {"crashed": crashed}


class GlobalGenerator(LineEnv):
    """Draws from NumPy's global generator: an offset while it is built, and goals."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = np.random.uniform(-1, 1)

    def reset(self, **kwargs):
        observation, info = super().reset(**kwargs)
        self.goal = np.random.uniform(-1, 1, 1).astype(np.float32) + np.float32(self.offset)
        return observation | {"desired_goal": self.goal.copy()}, info


class PanicsInStep(LineEnv):
    """Raises what is no Exception, as extensions written in Rust do."""

    class Panic(BaseException):
        pass

    def step(self, action):
        raise self.Panic("unwrap on None")


class ChangesFolder(LineEnv):
    """Works in another folder, as wrappers of simulators do."""

    def __init__(self) -> None:
        super().__init__()
        os.chdir("/")


def observing(**values: Any) -> dict[str, Any]:
    """Return a method ``observe`` that returns these values."""
    return {"observe": lambda self: LineEnv.observe(self) | values}


def reset_unseeded(self: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    observation, info = LineEnv.reset(self, **kwargs)
    self.goal = np.random.default_rng().uniform(-2, 2, 1).astype(np.float32)
    return observation | {"desired_goal": self.goal.copy()}, info


def observe_in_place(self: Any) -> dict[str, Any]:
    self.shown = getattr(self, "shown", {key: np.zeros(1, np.float32) for key in LineEnv.observe(self)})
    for key, value in LineEnv.observe(self).items():
        self.shown[key][:] = value
    return self.shown


def with_spaces(change: Callable[[dict[str, spaces.Space]], Any]) -> dict[str, Any]:
    """Return a constructor that changes the spaces of the observations."""

    def __init__(self) -> None:
        LineEnv.__init__(self)
        change(self.observation_space.spaces)

    return {"__init__": __init__}


def distance(achieved: Any, desired: Any) -> Any:
    return np.linalg.norm(achieved - desired, axis=-1)


NAN = float("nan")
VARIANTS: dict[str, dict[str, Any]] = {
    "NaNReward": {"paid": lambda self, action, reward: NAN},
    "ActionCost": {"paid": lambda self, action, reward: reward - 0.1 * float(np.square(action).sum())},
    "NaNSuccess": {"info": lambda self, success: {"is_success": NAN}},
    "TextSuccess": {"info": lambda self, success: {"is_success": "False"}},
    "Silent": {"info": lambda self, success: {}},
    "Dense": {
        "info": lambda self, success: {},
        "ends_on_success": False,
        "compute_reward": lambda self, achieved, desired, info: -distance(achieved, desired),
    },
    "TwoThirds": {"compute_reward": lambda self, *goals: LineEnv.compute_reward(self, *goals) + np.float32(2 / 3)},
    "WrongShape": observing(observation=np.zeros(3, dtype=np.float32)),
    "OutOfSpace": observing(observation=np.full(1, 11.0, dtype=np.float32)),
    "TextObservation": observing(observation=np.array(["0.5"])),
    "NaNObservation": {
        "observe": lambda self: (
            LineEnv.observe(self) | ({"achieved_goal": np.full(1, NAN, np.float32)} if self.steps == 2 else {})
        )
    },
    "LacksKey": with_spaces(lambda declared: declared.pop("achieved_goal")),
    "GoalsOfTwoShapes": with_spaces(lambda declared: declared.update(achieved_goal=spaces.Box(-10, 10, (2,)))),
    "Nested": with_spaces(lambda declared: declared.update(observation=spaces.Dict(position=declared["achieved_goal"])))
    | {"observe": lambda self: LineEnv.observe(self) | {"observation": {"position": self.position.copy()}}},
    "Unseeded": {"reset": reset_unseeded},
    "ReusesArrays": {"observe": observe_in_place},
    "ForgetsKey": {
        "observe": lambda self: {
            key: value for key, value in LineEnv.observe(self).items() if key != "desired_goal" or self.steps == 0
        }
    },
    # Rewards are -1 and 0 in step, 0 and 1 in compute_reward: a mistake seen in a published HER example.
    "TwoConventions": {
        "paid": lambda self, action, reward: reward - 1.0,
        "compute_reward": lambda self, achieved, desired, info: (distance(achieved, desired) < 0.3).astype(np.float32),
    },
    # Single goals only, as in many published environments.
    "PlainReward": {
        "compute_reward": lambda self, achieved, desired, info: (
            0.0 if np.linalg.norm(achieved - desired) < 0.3 else -1.0
        )
    },
    # Raises on a batch.
    "FixedGoals": {
        "compute_reward": lambda self, achieved, desired, info: (
            0.0 if abs(float(achieved[0].item()) - float(desired[0])) < 0.3 and info is not None else -1.0
        )
    },
    # Two numbers for a pair of goals, and a matrix for a batch.
    "PairReward": {
        "paid": lambda self, action, reward: -1.0,
        "compute_reward": lambda self, *goals: np.stack([LineEnv.compute_reward(self, *goals)] * 2, axis=-1),
    },
}
"""Environments that differ from LineEnv in a method or two."""

HOSTILE = [env for env in list(globals().values()) if isinstance(env, type) and issubclass(env, LineEnv)]
HOSTILE += [type(name, (LineEnv,), methods) for name, methods in VARIANTS.items()]
for env in HOSTILE:
    gym.register(id=f"{env.__name__}-v0", entry_point=env, max_episode_steps=20)
    if env.__name__ == "Dense":
        gym.register(id="Endless-v0", entry_point=env)


def hostile(name: str, **keys: Any) -> EnvConfig:
    return EnvConfig(id=f"{name}-v0", modules=["hostile_envs"], **keys)
