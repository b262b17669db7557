"""Reward and done of virtual transitions."""

import numpy as np
import pytest

from rlher.her.reward_and_done import Relabeller, goal_independent_rewards
from rlher.her.reward_function import RewardFunction
from tests.support.her_play import Player, make_buffer

MANY = {"n_sampled_goal": 10**6}  # all but one transition of a batch are virtual


def virtual(batch):
    """Return achieved goals before and after, goals, rewards and dones of the virtual transitions."""
    before, after = (x["achieved_goal"][1:, 0].numpy() for x in (batch.observations, batch.next_observations))
    goal = batch.observations["desired_goal"][1:, 0].numpy()
    assert (goal == batch.next_observations["desired_goal"][1:, 0].numpy()).all()
    return before, after, goal, batch.rewards[1:, 0].numpy(), batch.dones[1:, 0].numpy()


def play_success_and_crash(buffer):
    """Play twenty episodes of five steps: even ones end at their goal, odd ones in a crash that costs 5 more."""
    player = Player(buffer)
    for episode in range(20):
        success = episode % 2 == 0
        player.goal = player.counter + 6.0 if success else -1.0  # the reset counts one, the five steps five
        player.begin()
        for step in range(5):
            last = step == 4
            player.play([last], [0.0 if last and success else (-6.0 if last else -1.0)], [last])
    return player


@pytest.mark.parametrize("known", [{}, {"ends_on_success": True}, {"success_reward": 0.0, "ends_on_success": True}])
def test_done_follows_the_new_goal_where_episodes_end_on_success(known):
    """SB3 #627, rlkit #96: relabelled success is terminal, success under another goal is not, a crash is."""
    buffer = make_buffer(goal_selection_strategy="episode", **MANY, **known)
    player = play_success_and_crash(buffer)
    crashed = {entry[4]["achieved_goal"][0] for entry in player.log if entry[5] == -6.0}
    ended = {entry[4]["achieved_goal"][0] for entry in player.log if entry[5] == 0.0}
    assert len(crashed) == len(ended) == 10
    _, after, goal, reward, done = virtual(buffer.sample(4000))
    reached, crash = after == goal, np.isin(after, list(crashed))
    assert reached.any()
    assert crash.any()
    assert (np.isin(after, list(ended)) & ~reached).any()
    assert (done == (reached | crash)).all()
    assert (reward == np.where(reached, 0, -1) - 5.0 * crash).all(), "the crash penalty survives relabelling"


def test_done_can_be_kept_and_the_penalty_dropped():
    """This is what SB3 does."""
    buffer = make_buffer(
        goal_selection_strategy="episode", relabel_done="keep", keep_goal_independent_reward=False, **MANY
    )
    player = play_success_and_crash(buffer)
    ended = [entry[4]["achieved_goal"][0] for entry in player.log if entry[5] in (0.0, -6.0)]
    _, after, goal, reward, done = virtual(buffer.sample(2000))
    assert (done == np.isin(after, ended)).all()
    assert (reward == np.where(after == goal, 0, -1)).all()


def test_done_stays_where_success_does_not_end_episodes():
    buffer = make_buffer(**MANY)
    player = Player(buffer)
    for step in range(100):
        player.goal = player.counter + 1.0  # the goal moves to wherever the step leads, as in a continuing task
        player.play([step % 10 == 9], [0.0])
    _, after, goal, reward, done = virtual(buffer.sample(1000))
    assert not buffer.relabeller.done_follows_goal
    assert (done == 0).all()
    assert (reward == np.where(after == goal, 0, -1)).all()


def test_time_outs_are_bootstrapped_and_can_be_made_terminal():
    """SB3 #284."""
    for handled in (True, False):
        buffer = make_buffer(handle_timeout_termination=handled, n_sampled_goal=0)
        player = Player(buffer)
        for step in range(50):
            player.play([step % 5 == 4])
        assert buffer.sample(500).dones.any() == (not handled)


def test_rounding_errors_are_not_goal_independent_reward():
    stored = np.array([-1.0000001, -6.0, 1000.001], dtype=np.float32)
    assert goal_independent_rewards(stored, np.array([-1.0, -1.0, 1000.0])).tolist() == [0.0, -5.0, 0.0]


def scalar_norm(achieved, desired, info):
    """SB3 #1337: np.linalg.norm without an axis."""
    return 0.0 if np.linalg.norm(achieved - desired) < 0.5 else -1.0


def wrong_axis(achieved, desired, info):
    """With as many rows as a goal has entries, the shape is right by accident."""
    return -(np.abs(achieved - desired) > 0.5).any(axis=0).astype(float) if achieved.ndim > 1 else -1.0


@pytest.mark.parametrize("goal_size", [1, 3, 5])
@pytest.mark.parametrize("function", [scalar_norm, wrong_axis])
def test_unvectorised_rewards_are_computed_row_by_row_with_one_warning(function, goal_size):
    reward = RewardFunction(function)
    goals = np.ones((64, goal_size))
    with pytest.warns(UserWarning, match="not vectorised") as caught:
        rewards = [reward(goals[:rows], 0 * goals[:rows]).tolist() for rows in (64, goal_size, 64)]
    # Garbage of other tests may cause a ResourceWarning meanwhile.
    assert [warning.category for warning in caught].count(UserWarning) == 1
    assert rewards == [[-1.0] * 64, [-1.0] * goal_size, [-1.0] * 64]


def observe(tested, goal_rewards, at_goal, terminated):
    if at_goal is not None:
        tested.statistics.record_reward_at_goal(np.array(at_goal))
    tested.statistics.record_rewards(np.array(goal_rewards))
    tested.statistics.record_ends(tested.is_reached(np.array(goal_rewards)), np.array(terminated))


def test_sparse_and_dense_rewards_are_distinguished():
    sparse, dense, unknown = (Relabeller(None, None) for _ in range(3))
    observe(sparse, [-1.0, -1.0], [0.0, 0.0], [False, False])
    assert not sparse.done_follows_goal, "no episode has ended on success yet"
    observe(sparse, [-1.0, 0.0], None, [False, True])
    assert sparse.done_follows_goal
    observe(sparse, [0.0, 0.0], None, [False, False])
    assert not sparse.done_follows_goal, "most successes did not end an episode"
    for reward in (-0.3, -0.2, -0.1):
        observe(dense, [reward], [0.0] if reward == -0.3 else None, [False])
    observe(dense, [0.0], None, [True])
    assert not dense.done_follows_goal
    assert not dense.is_reached(np.array([0.0])).any()
    observe(unknown, [0.0], [0.0], [True])
    assert not unknown.done_follows_goal, "one value alone may be failure or success"
    maze = Relabeller(None, None, "success")
    observe(maze, [0.0, 0.0], [1.0, 1.0], [False, False])
    rows = np.zeros(2, [("reward", float), ("goal_independent_reward", float), ("terminated", bool)])
    assert maze.dones(np.array([1.0, 0.0]), rows).tolist() == [True, False]
