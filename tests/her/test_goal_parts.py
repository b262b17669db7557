"""Goals of several parts: each virtual goal uses one, rewards follow the goal of the transition."""

import numpy as np
import pytest
from gymnasium import spaces

from rlher import HerReplayBuffer
from rlher.her.priorities import EnergyPriority

SIZE, LENGTH = 2, 10


def reward(achieved, desired, info):
    """Return the reward for the part in use: the second if it is not zero, else the first."""
    second = (desired[..., SIZE:] != 0).any(axis=-1)
    gaps = [np.abs(achieved[..., part] - desired[..., part]).max(axis=-1) for part in (slice(SIZE), slice(SIZE, None))]
    return np.where(np.where(second, gaps[1], gaps[0]) < 1e-6, 0.0, -1.0)


def make_buffer(penalty: float = 0.0, **keys) -> HerReplayBuffer:
    """Fill a buffer with episodes whose goals use one part, in turns; the penalty is part of each reward."""
    goal = spaces.Box(-np.inf, np.inf, (2 * SIZE,), np.float32)
    space = spaces.Dict(observation=spaces.Box(-1, 1, (3,), np.float32), achieved_goal=goal, desired_goal=goal)
    buffer = HerReplayBuffer(
        2000,
        space,
        spaces.Box(-1, 1, (1,)),
        device="cpu",
        seed=0,
        compute_reward=reward,
        **({"goal_parts": 2} | keys),
    )
    rng = np.random.default_rng(0)

    def observe(wanted: np.ndarray) -> dict:
        return {
            "observation": np.zeros((1, 3), np.float32),
            "achieved_goal": rng.normal(size=(1, 2 * SIZE)).astype(np.float32),
            "desired_goal": wanted.reshape(1, -1).astype(np.float32),
        }

    for episode in range(60):
        wanted = rng.normal(size=(1, 2, SIZE))
        wanted[:, episode % 2] = 0
        now = observe(wanted)
        for step in range(LENGTH):
            after = observe(wanted)
            paid = reward(after["achieved_goal"], after["desired_goal"], {}) + penalty
            over = step == LENGTH - 1
            buffer.add(now, after, np.zeros((1, 1)), paid, np.array([over]), [{"TimeLimit.truncated": over}])
            now = after
    return buffer


@pytest.mark.parametrize("strategy", ["future", "mix"])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_a_batch_holds_one_goal_per_transition_and_its_reward(strategy: str, n_steps: int):
    buffer = make_buffer(goal_selection_strategy=strategy, n_steps=n_steps, gamma=0.9)
    batch = buffer.sample(4000)
    goals, next_goals = batch.observations["desired_goal"].numpy(), batch.next_observations["desired_goal"].numpy()
    assert np.array_equal(goals, next_goals)
    used = (goals.reshape(-1, 2, SIZE) != 0).any(axis=2)
    assert (used.sum(axis=1) == 1).all()
    assert abs(used[800:, 1].mean() - 0.5) < 0.03  # the first fifth keep their goals
    achieved = buffer.storage.rows["obs"]["achieved_goal"][: 60 * LENGTH]
    starts = [np.flatnonzero((achieved == row).all(axis=1))[0] for row in batch.observations["achieved_goal"].numpy()]
    expected = np.zeros(len(starts))
    for row, start in enumerate(starts):
        steps = buffer.storage.next_achieved_goals[start : start + min(n_steps, LENGTH - start % LENGTH)]
        expected[row] = reward(steps, goals[row], {}) @ 0.9 ** np.arange(len(steps))
    np.testing.assert_allclose(batch.rewards.numpy().ravel(), expected, rtol=1e-6)
    assert expected[800:].max() == 0


@pytest.mark.parametrize("n_sampled_goal", [0, 4])
def test_original_rewards_keep_their_part_that_no_goal_explains(n_sampled_goal: int):
    """Also in a batch without virtual transitions, such as one of a single transition."""
    buffer = make_buffer(penalty=-0.5, n_sampled_goal=n_sampled_goal)
    assert {float(buffer.sample(1).rewards) for _ in range(20)} <= {-1.5, -0.5}


@pytest.mark.parametrize("priority", ["energy", EnergyPriority])
def test_energy_is_that_of_the_first_part(priority):
    buffer = make_buffer(priority=priority)
    buffer.sample(1)
    storage = buffer.storage
    first = storage.rows["obs"]["achieved_goal"][: 60 * LENGTH : LENGTH, None]
    achieved = np.concatenate((first, storage.next_achieved_goals[: 60 * LENGTH].reshape(60, LENGTH, -1)), axis=1)
    expected = (np.diff(achieved[:, :, :SIZE].astype(np.float64), axis=1) ** 2).sum(axis=(1, 2))
    np.testing.assert_allclose(buffer.priority.energy[:60], expected)
