"""Virtual transitions of episodes in which nothing moved are left out; everything else is drawn as before."""

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from rlher.her import KEY_TO_GOAL_STRATEGY, Trajectory
from rlher.her.choices import PRIORITIES
from tests.support.her_play import make_buffer

LENGTH, BATCH = 5, 200


class Walk:
    """Plays steps whose achieved goals are given; each observation has the numbers of environment and episode."""

    def __init__(self, buffer):
        self.buffer, self.n_envs, self.episode = buffer, buffer.n_envs, 0

    def observe(self, goal):
        numbers = np.stack([np.arange(self.n_envs), np.full(self.n_envs, self.episode)], axis=1)
        achieved = np.full((self.n_envs, 1), float(goal))
        return {"observation": numbers, "achieved_goal": achieved, "desired_goal": np.full((self.n_envs, 1), -100.0)}

    def play(self, goals, ends=True):
        for number, (goal, after) in enumerate(itertools.pairwise(goals), start=2):
            done = np.full(self.n_envs, ends and number == len(goals))
            infos = [{"TimeLimit.truncated": bool(done[0])}] * self.n_envs
            action, reward = np.zeros((self.n_envs, 1)), -np.ones(self.n_envs)
            self.buffer.add(self.observe(goal), self.observe(after), action, reward, done, infos)
        self.episode += ends

    def episodes(self, count, moving):
        """Play episodes, of which those with a number below ``moving`` of each ten move by 1 and back."""
        for number in range(count):
            self.play([0, 0, 1, 0, 0, 0] if number % 10 < moving else [0.0, 0.2, -0.2, 0.2, 0.0, 0.1])


def walked(moving, count=40, size=1000, n_envs=1, **options):
    buffer = make_buffer(size, n_envs, **({"static_distance": 0.3} | options))
    Walk(buffer).episodes(count, moving)
    return buffer


def drawn(buffer, batches=50):
    """Return numbers of episodes, and which transitions are virtual."""
    samples = [buffer.sample(BATCH) for _ in range(batches)]
    episodes = np.concatenate([sample.observations["observation"][:, 1] for sample in samples]).astype(int)
    goals = np.concatenate([sample.observations["desired_goal"][:, 0] for sample in samples])
    return episodes, goals != -100


@pytest.mark.parametrize("moving", [2, 5])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_a_batch_is_drawn_as_if_the_virtual_transitions_had_never_been_stored(moving, n_envs):
    episodes, virtual = drawn(walked(moving, n_envs=n_envs), batches=100)
    assert virtual.mean() == pytest.approx(4 * moving / (10 + 4 * moving), abs=0.02)
    for kept, numbers in ((~virtual, range(40)), (virtual, [each for each in range(40) if each % 10 < moving])):
        counts = np.bincount(episodes[kept], minlength=40)
        assert counts.sum() == counts[numbers].sum()
        assert chisquare(counts[numbers]).pvalue > 1e-4


@pytest.mark.parametrize(
    "strategy", sorted({*KEY_TO_GOAL_STRATEGY} - {"desired"})
)  # its virtual goals look like real ones
@pytest.mark.parametrize("priority", PRIORITIES)
@pytest.mark.parametrize("n_steps", [1, 3])
def test_it_holds_for_each_strategy_and_priority(strategy, priority, n_steps):
    buffer = walked(5, goal_selection_strategy=strategy, priority=priority, n_steps=n_steps)
    episodes, virtual = drawn(buffer, batches=10)
    assert virtual.any()
    assert (episodes[virtual] % 10 < 5).all()
    assert (episodes % 10 >= 5).any()


def test_without_the_option_static_episodes_have_virtual_transitions():
    episodes, virtual = drawn(walked(5, static_distance=None))
    assert virtual.mean() == 0.8
    assert (episodes[virtual] % 10 >= 5).any()


def test_a_batch_of_static_episodes_is_real():
    buffer = walked(0, compute_reward=None)  # without a reward function, which only virtual transitions need
    assert not drawn(buffer)[1].any()


def test_a_batch_of_moving_episodes_has_the_usual_proportion():
    buffer = walked(10)
    assert drawn(buffer, batches=1)[1].sum() == int(0.8 * BATCH)


def test_importance_weights_are_those_of_the_batch():
    buffer = walked(5, priority="td_error")
    sample = buffer.sample(BATCH)
    buffer.update_priorities(sample.indices, sample.observations["observation"][:, 1])
    sample = buffer.sample(BATCH)
    assert sample.weights.shape == (BATCH, 1)
    assert sample.weights.max() == 1
    assert len(sample.indices) == BATCH


def test_a_running_episode_is_static_until_it_moves():
    buffer = make_buffer(static_distance=0.3)
    walk = Walk(buffer)
    walk.play([0, 0, 0.3], ends=False)
    assert not drawn(buffer)[1].any()
    walk.play([0.3, 0.4, 0], ends=False)
    assert drawn(buffer)[1].mean() == 0.8


def test_of_an_episode_longer_than_the_buffer_only_the_part_held_counts():
    buffer = make_buffer(20, static_distance=0.3)
    walk = Walk(buffer)
    walk.play([0, 1] + [0] * 12, ends=False)
    assert drawn(buffer)[1].any()
    walk.play([0] * 30, ends=False)
    assert not drawn(buffer)[1].any()


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("priority", PRIORITIES)
def test_a_loaded_buffer_draws_the_same(tmp_path, n_envs, priority):
    """In the middle of an episode, after evictions; the first buffer was drawn from before, the second was not."""

    def played():
        buffer = make_buffer(90 * n_envs, n_envs, static_distance=0.3, priority=priority)
        return buffer, Walk(buffer)

    buffer, walk = played()
    for _ in range(4):
        walk.episodes(8, 5)
        buffer.sample(BATCH)
    walk.play([0, 0, 1], ends=False)
    buffer.sample(BATCH)
    buffer.save(tmp_path)
    other, other_walk = played()
    other.load(tmp_path)
    other_walk.episode = walk.episode
    for _ in range(3):
        for mine, others in zip(drawn(buffer, 3), drawn(other, 3), strict=True):
            np.testing.assert_array_equal(mine, others)
        for each in (walk, other_walk):
            each.play([1, 1, 1])
            each.episodes(7, 5)


def test_demonstrations_keep_their_share_and_their_virtual_transitions():
    observations = Walk(make_buffer()).observe(0)
    steps = {key: np.repeat(value, LENGTH + 1, axis=0) for key, value in observations.items()}
    steps["observation"][:, 1] = 1000
    steps["achieved_goal"][:, 0] = np.arange(LENGTH + 1)
    shown = Trajectory(steps, np.zeros((LENGTH, 1)), -np.ones(LENGTH))
    buffer = walked(2, demonstrations=[shown], demonstration_fraction=0.25)
    sample = buffer.sample(BATCH)
    is_shown = sample.observations["observation"][:, 1] == 1000
    virtual = sample.observations["desired_goal"][:, 0] != -100
    assert is_shown.sum() == is_shown[sample.demonstrations].sum() == 50
    assert virtual[is_shown].sum() == 40
    assert 0 < virtual[~is_shown].sum() < 120


@pytest.mark.parametrize("options", [{"static_distance": -1.0}, {"static_distance": float("nan")}])
def test_distances_that_are_none_are_refused(options):
    with pytest.raises(ValueError, match="static_distance"):
        make_buffer(**options)


def test_it_is_refused_with_goals_of_slots():
    with pytest.raises(ValueError, match="static_distance"):
        make_buffer(static_distance=0.1, goal_slot_shares=(0.5, 0.5))
