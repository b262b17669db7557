"""A goal environment whose observations identify environment, episode and step, and a player for it."""

from dataclasses import dataclass, field

import numpy as np
from gymnasium import spaces

from rlher import HerReplayBuffer

SPACE = spaces.Dict(
    {
        "observation": spaces.Box(-np.inf, np.inf, (2,), np.float64),
        "achieved_goal": spaces.Box(-np.inf, np.inf, (1,), np.float64),
        "desired_goal": spaces.Box(-np.inf, np.inf, (1,), np.float64),
    }
)
ACTION = spaces.Box(-1, 1, (1,), np.float32)


def sparse(achieved, desired, info):
    """Return 0 where the goal is reached, else -1."""
    return -(np.abs(achieved - desired) > 0.5).any(axis=-1).astype(np.float64)


@dataclass
class Player:
    """Plays episodes in which the achieved goal counts all steps ever taken: no two steps achieve the same.

    ``log`` holds every transition as it was played, by (env, episode, step).
    """

    buffer: HerReplayBuffer
    n_envs: int = 1
    counter: int = 0
    log: list = field(default_factory=list)
    episode: list = field(default_factory=list)
    step: list = field(default_factory=list)
    last: list = field(default_factory=list)
    goal: float | None = None  # desired from the next observation on, in place of one per episode

    def __post_init__(self):
        self.episode, self.step, self.last = ([0] * self.n_envs for _ in range(3))
        self.last = [self._observe(env) for env in range(self.n_envs)]

    def _observe(self, env):
        self.counter += 1
        return {
            "observation": np.array([env, self.episode[env]], dtype=np.float64),
            "achieved_goal": np.array([self.counter], dtype=np.float64),
            "desired_goal": np.array([-1.0 - self.episode[env] if self.goal is None else self.goal]),
        }

    def begin(self):
        """Reset every environment, without a `done`, as the first call of `learn` does."""
        self.last = [self._observe(env) for env in range(self.n_envs)]

    def play(self, ends, rewards=None, terminated=None, lost=False):
        """Play one step of every environment; ``ends[i]`` ends the episode of environment i.

        If it is lost, no step is stored, and all running episodes are truncated.
        """
        rewards = [-1.0] * self.n_envs if rewards is None else rewards
        terminated = [False] * self.n_envs if terminated is None else terminated
        now, after = self.last, [self._observe(env) for env in range(self.n_envs)]
        action = np.array([[step / 1000] for step in self.step])
        infos = [{"TimeLimit.truncated": bool(e and not t)} for e, t in zip(ends, terminated, strict=True)]
        if lost:
            self.buffer.storage.truncate_running()
        else:
            self.buffer.add(_stack(now), _stack(after), action, np.array(rewards), np.array(ends), infos)
        for env in range(self.n_envs):
            if not lost:
                self.log.append((env, self.episode[env], self.step[env], now[env], after[env], rewards[env]))
            self.step[env] += 1
            if ends[env] or lost:  # even if the environment does not say so
                self.episode[env] += 1
                self.step[env] = 0
                after[env] = self._observe(env)
        self.last = after


def _stack(observations):
    return {key: np.stack([obs[key] for obs in observations]) for key in observations[0]}


def make_buffer(size=1000, n_envs=1, demonstrations=None, **kwargs):
    kwargs = {"compute_reward": sparse, "seed": 0} | kwargs
    buffer = HerReplayBuffer(size, SPACE, ACTION, device="cpu", n_envs=n_envs, **kwargs)
    if demonstrations is not None:
        buffer.set_demonstrations(demonstrations)
    return buffer
