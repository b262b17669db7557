"""Returns over several steps, relabelled."""

import numpy as np
import pytest

from tests.support.her_play import Player, make_buffer


def by_hand(log, start, goal, n_steps, gamma, relabelled, done_of):
    """Return the n-step return of the log's transition ``start``: reward, done, steps, last achieved goal."""
    total, taken = 0.0, 0
    for entry in log[start : start + n_steps]:
        if entry[1] != log[start][1]:
            break
        after = entry[4]["achieved_goal"][0]
        reward = (0.0 if after == goal else -1.0) - 5 * (entry[5] == -6.0) if relabelled else entry[5]
        total, taken = total + gamma**taken * reward, taken + 1
        if done_of(entry, goal):
            return total, 1.0, taken, after
    return total, 0.0, taken, after


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(("n_steps", "strategy"), [(2, "episode"), (3, "future"), (3, "mix"), (7, "random")])
def test_returns_match_a_sum_by_hand(n_steps, strategy, ends):
    """Episodes of 1 to 6 steps; every fourth crashes, others time out; the last one still runs."""
    gamma = 0.9
    buffer = make_buffer(
        n_steps=n_steps, gamma=gamma, goal_selection_strategy=strategy, ends_on_success=ends, success_reward=0.0
    )
    player = Player(buffer)
    for episode in range(30):
        for step in range(1 + episode % 6):
            last = step == episode % 6 and episode < 29
            crash = last and episode % 4 == 3
            player.play([last], [-6.0 if crash else -1.0], [crash])
    crashed = {entry[4]["achieved_goal"][0] for entry in player.log if entry[5] == -6.0}
    number = {entry[3]["achieved_goal"][0]: index for index, entry in enumerate(player.log)}

    batch = buffer.sample(500)
    n_real = 500 - int(buffer.her_ratio * 500)
    for row in range(500):
        start = number[batch.observations["achieved_goal"][row, 0].item()]
        goal = batch.observations["desired_goal"][row, 0].item()
        is_original = goal == player.log[start][3]["desired_goal"][0]

        def done_of(entry, goal, is_original=is_original):
            after = entry[4]["achieved_goal"][0]
            return after in crashed or (ends and not is_original and after == goal)

        reward, done, taken, after = by_hand(player.log, start, goal, n_steps, gamma, not is_original, done_of)
        assert batch.rewards[row, 0].item() == pytest.approx(reward, abs=1e-5)
        assert batch.dones[row, 0].item() == done
        assert batch.discounts[row, 0].item() == pytest.approx(gamma**taken)
        assert batch.next_observations["achieved_goal"][row, 0].item() == after
        assert batch.next_observations["desired_goal"][row, 0].item() == goal
        assert is_original or row >= n_real
    assert batch.discounts.shape == (500, 1)


def test_moving_goals_are_those_at_both_ends_of_a_return():
    buffer = make_buffer(n_steps=3, n_sampled_goal=0, compute_reward=None)  # plain replay needs none
    player = Player(buffer)
    for step in range(40):
        player.goal = float(step // 2)
        player.play([step % 10 == 9])
    batch = buffer.sample(300)
    at = {e[3]["achieved_goal"][0]: e[3]["desired_goal"][0] for e in player.log}
    to = {e[4]["achieved_goal"][0]: e[4]["desired_goal"][0] for e in player.log}
    for side, known in ((batch.observations, at), (batch.next_observations, to)):
        achieved, desired = side["achieved_goal"][:, 0].numpy(), side["desired_goal"][:, 0].numpy()
        assert (desired == np.array([known[x] for x in achieved])).all()
