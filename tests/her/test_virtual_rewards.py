"""Rewards of virtual transitions compared with ``compute_reward`` at the environment's own precision."""

from dataclasses import dataclass, field

import numpy as np
from gymnasium import spaces
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlher import HerReplayBuffer

ALL_VIRTUAL = {"n_sampled_goal": 10**6}  # all but the first transition of a batch are virtual
BONUS = -3.25  # goal-independent, and exact in float32


@dataclass
class Walk:
    """A random walk on a grid with goals of any type, and a record of its rewards.

    :param dtype: of the goals; ``int64`` with ``Discrete`` goals.
    :param cell: width of the grid; 1 for whole numbers.
    :param reach: greatest distance, in goals' units, at which a goal is reached.
    :param values: rewards of a goal missed and reached.
    :param goal_moves: whether the goal is another after each step, and the reward is paid for the one before it.
    """

    dtype: np.dtype
    cell: float
    reach: float
    values: tuple[float, float] = (-1.0, 0.0)
    goal_moves: bool = False
    seed: int = 0
    paid: dict = field(default_factory=dict)  # by number of the step: achieved goal, goal-independent reward

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.discrete = self.dtype == np.int64
        goal = spaces.Discrete(40) if self.discrete else spaces.Box(0, 255, (1,), self.dtype)
        number = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.space = spaces.Dict(observation=number, achieved_goal=goal, desired_goal=goal)
        self.number = 0

    def compute_reward(self, achieved, desired, info):
        distance = np.abs(np.asarray(achieved, dtype=np.float64) - np.asarray(desired, dtype=np.float64))
        return np.where((distance > self.reach).any(axis=-1), *self.values)

    def observe(self, position, goal):
        both = (np.array([[index * self.cell]], dtype=self.dtype) for index in (position, goal))
        achieved, desired = (goal.reshape(1) if self.discrete else goal for goal in both)
        self.number += 1
        return {"observation": np.array([[self.number]]), "achieved_goal": achieved, "desired_goal": desired}

    def play(self, buffer, lengths, bonus=0.0):
        """Play episodes of those lengths; every fourth step has ``bonus`` in addition to the goal's reward."""
        action = np.zeros((1, 1), dtype=np.float32)
        for length in lengths:
            position, goal = self.rng.integers(0, 40, 2)
            before = self.observe(position, goal)
            for step in range(length):
                position = np.clip(position + self.rng.integers(-1, 2), 0, 39)
                original, goal = goal, self.rng.integers(0, 40) if self.goal_moves else goal
                after = self.observe(position, goal)
                seen = [after["achieved_goal"].reshape(1, 1), np.array([[original * self.cell]]).astype(self.dtype)]
                extra = bonus if self.number % 4 == 0 else 0.0
                reward = self.compute_reward(*seen, {}) + extra
                self.paid[float(before["observation"][0, 0])] = after["achieved_goal"].reshape(1), extra
                end = step == length - 1
                buffer.add(before, after, action, reward, np.array([end]), [{"TimeLimit.truncated": end}])
                before = after
        return self

    def expected(self, batch):
        """Return the expected rewards of the virtual transitions of a batch: rewards of their goals plus the bonus."""
        achieved, bonus = zip(*(self.paid[float(n)] for n in batch.observations["observation"][1:, 0]), strict=True)
        shown = batch.observations["desired_goal"][1:, :1].double().numpy()
        goals = (np.round(shown / self.cell) * self.cell).astype(self.dtype)  # as the environment had them
        return self.compute_reward(np.array(achieved), goals, {}) + np.array(bonus)


def make(walk, **options):
    options = {"compute_reward": walk.compute_reward, "seed": 0, "device": "cpu"} | ALL_VIRTUAL | options
    return HerReplayBuffer(10_000, walk.space, spaces.Box(-1, 1, (1,), np.float32), **options)


@settings(max_examples=25, deadline=None)
@given(
    dtype=st.sampled_from(["float32", "float64", "uint8", "int64"]),
    cells=st.integers(0, 3),
    values=st.sampled_from([(-1.0, 0.0), (0.0, 1.0), (-0.1, 1.0), (-1.0, 10.0)]),
    cell=st.sampled_from([0.1, 0.3, 0.7, 1 / 3]),
    lengths=st.lists(st.integers(1, 30), min_size=4, max_size=30),
    bonus=st.sampled_from([0.0, BONUS]),
    goal_moves=st.booleans(),
    seed=st.integers(0, 10_000),
)
@example("float64", 1, (-1.0, 0.0), 0.1, [40] * 30, 0.0, False, 0)  # in float32 some neighbours are out of reach
@example("float64", 1, (-1.0, 0.0), 0.1, [40] * 30, 0.0, True, 0)
def test_virtual_rewards_are_those_of_their_goals_plus_the_goal_independent_part(
    dtype, cells, values, cell, lengths, bonus, goal_moves, seed
):
    kind = np.dtype(dtype)
    cell = cell if kind.kind == "f" else 1
    # The reward of a goal that moved, or that float32 puts out of reach, looks like a bonus in the same step.
    bonus = bonus if dtype != "float64" else 0.0
    walk = Walk(kind, cell, cells * cell, values, goal_moves and not bonus, seed)
    buffer = make(walk)
    walk.play(buffer, lengths, bonus)
    for _ in range(2):
        batch = buffer.sample(401)
        np.testing.assert_allclose(batch.rewards[1:, 0].numpy(), walk.expected(batch), atol=1e-5)
