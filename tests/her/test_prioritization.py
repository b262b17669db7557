"""Which transitions are drawn, and how often."""

import numpy as np
import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from rlher.her.sum_tree import SumTree
from tests.support.her_play import Player, make_buffer


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 3000), seed=st.integers(0, 1000), empty=st.floats(0, 0.95))
def test_the_tree_finds_what_a_running_sum_finds(size, seed, empty):
    rng = np.random.default_rng(seed)
    numbers = rng.random(size) * (rng.random(size) >= empty)
    numbers[rng.integers(size)] = 0.5
    tree = SumTree(size)
    for part in np.array_split(rng.permutation(size), 3):
        if len(part):
            tree.set(part, numbers[part])
    share = np.sort(rng.random(200))
    found = tree.find(share)
    assert tree.total == pytest.approx(numbers.sum())
    assert (numbers[found] > 0).all()
    running = np.cumsum(numbers)
    mass = share * running[-1]
    assert (running[found] >= mass - 1e-9).all()
    assert (running[found] - numbers[found] <= mass + 1e-9).all()


def test_the_edges_of_the_tree_are_in_it():
    tree = SumTree(100)
    tree.set(np.array([0, 99]), 1.0)
    assert tree.find(np.array([0.0, 0.5, np.nextafter(1.0, 0)])).tolist() == [0, 99, 99]


def drawn_after(buffer, batches=100, size=200):
    """How often each transition was drawn, by the number its step achieved."""
    seen = [buffer.sample(size).next_observations["achieved_goal"][:, 0] for _ in range(batches)]
    values, counts = np.unique(np.concatenate([s.numpy() for s in seen]), return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("n_envs", [1, 3])
def test_uniform_draws_are_uniform(n_envs):
    """Over environments that hold different numbers of transitions, wrapped around, running episodes included."""
    buffer = make_buffer(40 * n_envs, n_envs)
    player = Player(buffer, n_envs)
    for step in range(95):
        player.play([(step + 1) % (7 + 4 * env) == 0 for env in range(n_envs)])
    counts = drawn_after(buffer)
    assert len(counts) == buffer.n_transitions
    assert chisquare(list(counts.values())).pvalue > 1e-4


def test_td_errors_set_how_often_a_transition_is_drawn():
    buffer = make_buffer(50, priority="td_error", priority_kwargs={"alpha": 1.0, "epsilon": 1e-9})
    player = Player(buffer)
    for step in range(70):
        player.play([step % 10 == 9])
    slots = np.concatenate([ring.newest(ring.count) for ring in buffer.storage.rings])
    errors = np.arange(1.0, len(slots) + 1)
    buffer.update_priorities(buffer.storage.ids_of(slots), th.as_tensor(-errors).reshape(-1, 1))
    counts = drawn_after(buffer)
    seen = [counts.get(entry[4]["achieved_goal"][0], 0) for entry in player.log[-len(slots) :]]
    assert chisquare(seen, errors / errors.sum() * 20_000).pvalue > 1e-4


def test_weights_undo_the_bias_and_beta_rises_to_one():
    buffer = make_buffer(100, priority="td_error", priority_kwargs={"alpha": 1.0, "beta": 0.5, "beta_steps": 4})
    player = Player(buffer)
    for step in range(90):
        player.play([step % 10 == 9])
    slots = np.arange(90)
    buffer.update_priorities(slots, 1.0 + slots)
    for beta in (0.5, 0.625, 0.75, 0.875, 1.0, 1.0):
        batch = buffer.sample(64)
        priority = buffer.priority.tree.leaves[batch.indices]
        expected = priority**-beta / (priority**-beta).max()
        assert batch.weights.shape == (64, 1)
        assert np.allclose(batch.weights[:, 0].numpy(), expected, rtol=1e-5)


def test_new_transitions_count_as_much_as_the_greatest_error_and_evicted_ones_nothing():
    buffer = make_buffer(20, priority="td_error")
    player = Player(buffer)
    for step in range(20):
        player.play([step % 5 == 4])
    buffer.update_priorities(buffer.sample(64).indices, np.full(64, 3.0))
    for step in range(53):
        player.play([step % 5 == 4])
        batch = buffer.sample(32)
        after = batch.next_observations["achieved_goal"][:, 0].numpy()
        held = [entry[4]["achieved_goal"][0] for entry in player.log[-buffer.n_transitions :]]
        assert np.isin(after, held).all()
        assert (buffer.priority.tree.leaves > 0).sum() == buffer.n_transitions
    stale = batch.indices
    for step in range(30):
        player.play([step % 5 == 4])
        buffer.sample(4)
    buffer.update_priorities(stale, np.ones(32))  # by now others live there, or nobody: either is fine
    assert (buffer.priority.tree.leaves > 0).sum() == buffer.n_transitions
    assert buffer.priority.tree.leaves.max() == pytest.approx(3.001**0.6)


def test_energy_prefers_episodes_in_which_the_goal_moved():
    buffer = make_buffer(1000, priority="energy", priority_kwargs={"floor": 0.5})
    player = Player(buffer)
    for episode in range(20):  # every tenth step of the counter is a great leap
        for step in range(5):
            player.counter += 10 if episode % 4 == 0 else 0
            player.play([step == 4])
    batch = [buffer.sample(200).observations["observation"][:, 1].numpy() for _ in range(50)]
    counts = np.bincount(np.concatenate(batch).astype(int), minlength=20)
    moved = np.array([5 * 11**2 if episode % 4 == 0 else 5 for episode in range(20)], dtype=float)
    weight = np.maximum(moved, 0.5 * moved.mean())
    assert chisquare(counts, weight / weight.sum() * 10_000).pvalue > 1e-4


def test_energy_where_nothing_moves_is_uniform_and_running_episodes_are_drawn():
    buffer = make_buffer(30, priority="energy")
    obs = {"observation": np.zeros((1, 2)), "achieved_goal": np.zeros((1, 1)), "desired_goal": np.ones((1, 1))}
    for step in range(100):
        buffer.add(obs, obs, np.zeros((1, 1)), np.zeros(1), np.array([step % 7 == 6]), [{}])
        assert buffer.sample(8).rewards.shape == (8, 1)
        tree = buffer.priority.tree
        assert (tree.leaves > 0).sum() == buffer.n_transitions


def test_what_is_not_prioritised_by_error_takes_no_errors():
    for priority in ("uniform", "energy"):
        buffer = make_buffer(priority=priority)
        with pytest.raises(RuntimeError, match="td_error"):
            buffer.update_priorities(np.array([0]), np.array([1.0]))
    with pytest.raises(ValueError, match="uniform, energy, td_error"):
        make_buffer(priority="best")
    with pytest.raises(ValueError, match="alpha"):
        make_buffer(priority="td_error", priority_kwargs={"alpha": -1})
    buffer = make_buffer(priority="td_error")
    with pytest.raises(ValueError, match="finite"):
        buffer.update_priorities(np.array([0]), np.array([np.nan]))
