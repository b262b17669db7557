"""Which transitions are drawn, and how often."""

import itertools
import pickle
import re

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from rlher import HerReplayBuffer
from rlher.core.errors import RunError
from rlher.her.priorities import PRIORITIES, Priority, SumTree, TDErrorPriority
from tests.support.her_play import ACTION, SPACE, Player, make_buffer, sparse


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        (lambda ids: ids, "returned int64 of shape (8,); it must return a tuple of 8 ids"),
        (lambda ids: (ids + 10**6, None), "(int64 of shape (8,), None)"),
        (lambda ids: (ids[1:], None), "(int64 of shape (7,), None)"),
        (lambda ids: (ids.astype(float), None), "(float64 of shape (8,), None)"),
        (lambda ids: (ids, np.ones(3)), "(int64 of shape (8,), float64 of shape (3,))"),
        (lambda ids: (ids, "heavy"), "(int64 of shape (8,), str)"),
        (lambda ids: (ids, np.ones(8)), "8 weights if the class defines update"),
        (lambda ids: ([[1], [1, 2]], None), "sample of the priority UserPriority raised ValueError"),
    ],
)
def test_what_a_users_priority_returns_is_checked(returned, named: str) -> None:
    class UserPriority(Priority):
        def sample(self, count, rng):
            ids = self.storage.sample(count, rng)
            return returned(ids) if self.is_wrong else (ids.astype(np.int32), None)

    UserPriority.is_wrong = False
    buffer = make_buffer(priority=UserPriority)
    Player(buffer).play([True])
    assert len(buffer.sample(8).rewards) == 8
    UserPriority.is_wrong = True
    with pytest.raises(RunError, match=re.escape(named)):
        buffer.sample(8)


def test_a_users_priority_by_errors_needs_no_weights() -> None:
    class Unweighted(TDErrorPriority):
        def sample(self, count, rng):
            return super().sample(count, rng)[0], None

    buffer = make_buffer(priority=Unweighted)
    Player(buffer).play([True])
    before = buffer.sample(8), buffer.priority.tree.total
    buffer.update_priorities(before[0].indices, np.full(8, 9.0))
    assert buffer.priority.tree.total > before[1]


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 3000), seed=st.integers(0, 1000), empty=st.floats(0, 0.95))
def test_the_sum_tree_finds_the_same_index_as_a_running_sum(size, seed, empty):
    rng = np.random.default_rng(seed)
    numbers = rng.random(size) * (rng.random(size) >= empty)
    numbers[rng.integers(size)] = 0.5
    tree = SumTree(size)
    for part in np.array_split(rng.permutation(size), 3):
        if len(part):
            tree.set(part, numbers[part])
    share = np.sort(rng.random(200))
    index = tree.find(share)
    assert tree.total == pytest.approx(numbers.sum())
    assert (numbers[index] > 0).all()
    running = np.cumsum(numbers)
    mass = share * running[-1]
    assert (running[index] >= mass - 1e-9).all()
    assert (running[index] - numbers[index] <= mass + 1e-9).all()


def drawn_after(buffer, batches=100, size=200):
    """Return how often each transition was drawn, by its achieved goal after the step."""
    seen = [buffer.sample(size).next_observations["achieved_goal"][:, 0] for _ in range(batches)]
    values, counts = np.unique(np.concatenate([s.numpy() for s in seen]), return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("n_envs", [1, 3])
def test_uniform_draws_are_uniform(n_envs):
    """With different numbers of transitions per environment, evictions and running episodes."""
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
    ids = buffer.storage.ids_since(0)
    errors = np.arange(1.0, len(ids) + 1)
    buffer.update_priorities(ids, th.as_tensor(-errors).reshape(-1, 1))
    counts = drawn_after(buffer)
    seen = [counts.get(entry[4]["achieved_goal"][0], 0) for entry in player.log[-len(ids) :]]
    assert chisquare(seen, errors / errors.sum() * 20_000).pvalue > 1e-4


def test_weights_undo_the_bias_and_beta_rises_to_one():
    buffer = make_buffer(100, priority="td_error", priority_kwargs={"alpha": 1.0, "beta": 0.5, "beta_steps": 4})
    player = Player(buffer)
    for step in range(90):
        player.play([step % 10 == 9])
    ids = np.arange(90)
    buffer.update_priorities(ids, 1.0 + ids)
    for beta in (0.5, 0.625, 0.75, 0.875, 1.0, 1.0):
        batch = buffer.sample(64)
        priority = buffer.priority.tree.leaves[batch.indices]
        expected = priority**-beta / (priority**-beta).max()
        assert batch.weights.shape == (64, 1)
        assert np.allclose(batch.weights[:, 0].numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("n_envs", [1, 2])
def test_errors_of_evicted_transitions_are_dropped(n_envs):
    """Their positions belong to later transitions, which keep the priority of new ones."""
    buffer = make_buffer(20 * n_envs, n_envs, priority="td_error")
    player = Player(buffer, n_envs)
    for step in range(18):
        player.play([step % 5 == 4] * n_envs)
    stale = buffer.sample(64).indices
    for step in range(40):
        player.play([step % 5 == 4] * n_envs)
    buffer.update_priorities(stale, np.full(64, 0.5))
    leaves = buffer.priority.tree.leaves
    assert (leaves > 0).sum() == buffer.n_transitions
    assert set(leaves[leaves > 0]) == {1.0}
    fresh = buffer.sample(64).indices
    buffer.update_priorities(fresh, np.full(64, 0.5))
    assert (leaves == 0.501**0.6).sum() == len(np.unique(fresh))
    buffer.update_priorities(buffer.sample(64).indices, np.full(64, 3.0))
    for step in range(41):  # all others are evicted
        player.play([step % 5 == 4] * n_envs)
    buffer.sample(1)
    assert set(leaves[leaves > 0]) == {3.001**0.6}, "new transitions have the greatest priority so far"


def play_episodes(buffer, count, step, player=None):
    """Play episodes of five steps, in each of which the achieved goal moves that far per step."""
    player = player or Player(buffer)
    for _ in range(count):
        for number in range(5):
            player.counter += step - 1  # a step of the player counts one itself
            player.play([number == 4])
    return player


@pytest.mark.parametrize("still", [0.0, 3e-8])
def test_energy_is_ranked_against_the_mean_of_the_episodes_held(still):
    """Two still episodes, one sample, then 100 moving ones: these are drawn as if there had been no sample."""
    buffer = make_buffer(2000, priority="energy", priority_kwargs={"floor": 0.2})
    player = play_episodes(buffer, 2, still)
    buffer.sample(8)
    play_episodes(buffer, 100, 1e-3, player)
    drawn = np.concatenate([buffer.sample(200).observations["observation"][:, 1].numpy() for _ in range(100)])
    share = (drawn >= 2).mean()
    expected = 100 / (100 + 2 * 0.2 * 100 / 102)
    assert abs(share - expected) < 0.002
    assert (drawn < 2).any(), "still episodes keep their floor"


def test_an_unpickled_tree_is_whole():
    tree = pickle.loads(pickle.dumps(SumTree(5)))
    tree.set(np.arange(5), 2.0)
    assert tree.total == tree.leaves.sum() == 10


def test_energy_with_a_height_counts_gains_only():
    """A block is lifted by 10 cm, held and let fall; pushed at 0.5 m/s, stopped, and pushed at 1 m/s."""
    position = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    space = spaces.Dict({**SPACE.spaces, "achieved_goal": position, "desired_goal": position})
    options = {"height": 2, "step_seconds": 0.04}
    buffer = HerReplayBuffer(
        100, space, ACTION, device="cpu", priority="energy", priority_kwargs=options, compute_reward=sparse
    )
    lifted = [(0, 0, 0), (0, 0, 0.01), (0, 0, 0.1), (0, 0, 0.1), (0, 0, 0.095), (0, 0, 0.08)]
    pushed = [(0, 0, 0), (0.02, 0, 0), (0.04, 0, 0), (0.04, 0, 0), (0.08, 0, 0)]
    for path in (lifted, pushed):
        for step, (before, after) in enumerate(itertools.pairwise(np.array(path))):
            obs, next_obs = (
                {"observation": np.zeros((1, 2)), "achieved_goal": goal[None], "desired_goal": np.ones((1, 3))}
                for goal in (before, after)
            )
            done = step == len(path) - 2
            buffer.add(obs, next_obs, np.zeros((1, 1)), np.zeros(1), np.array([done]), [{}])
    buffer.sample(4)
    first_centimetre = 0.01**2 / (2 * 0.04**2) + 9.81 * 0.01
    first_push = 0.02**2 / (2 * 0.04**2)
    # The rest of the lift, and the second push, are more than counts of one step; holding, falling, coasting and
    # stopping count nothing.
    assert buffer.priority.energy[:2] == pytest.approx([first_centimetre + 0.5, first_push + 0.5], rel=1e-5)


@pytest.mark.parametrize("same", [True, False])
def test_energies_are_restored_if_their_unit_is_the_same(tmp_path, same: bool):
    """Those of the oldest episode: it has lost transitions, so its energy is less if it is computed again."""
    options = {"height": 0, "step_seconds": 0.04}
    saved, loaded = (
        make_buffer(12, priority="energy", priority_kwargs=kwargs) for kwargs in (options, options if same else {})
    )
    player = play_episodes(saved, 2, 1e-3)
    saved.sample(8)
    play_episodes(saved, 1, 1e-3, player)
    saved.sample(8)
    saved.save(tmp_path / "buffer.npz")
    loaded.load(tmp_path / "buffer.npz")
    loaded.sample(8)
    assert np.array_equal(loaded.priority.energy, saved.priority.energy) == same


def test_energy_where_nothing_moves_is_uniform_and_running_episodes_are_drawn():
    buffer = make_buffer(30, priority="energy")
    obs = {"observation": np.zeros((1, 2)), "achieved_goal": np.zeros((1, 1)), "desired_goal": np.ones((1, 1))}
    for step in range(100):
        buffer.add(obs, obs, np.zeros((1, 1)), np.zeros(1), np.array([step % 7 == 6]), [{}])
        assert buffer.sample(8).rewards.shape == (8, 1)
    ids, counts = np.unique(buffer.priority.sample(3000, np.random.default_rng(0))[0], return_counts=True)
    assert ids.tolist() == buffer.storage.ids_since(0).tolist()
    assert chisquare(counts).pvalue > 1e-4


def test_wrong_priorities_options_and_errors_are_refused():
    for priority in PRIORITIES.keys() - {"td_error"}:
        buffer = make_buffer(priority=priority)
        with pytest.raises(RuntimeError, match="td_error"):
            buffer.update_priorities(np.array([0]), np.array([1.0]))
    for bad in ({"alpha": -1}, {"alpha": np.inf}, {"epsilon": np.inf}, {"beta": np.nan}, {"beta_steps": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            make_buffer(priority="td_error", priority_kwargs=bad)
    height = {"height": 0, "step_seconds": 0.04}
    wrong = ({"height": 0}, {"step_seconds": 0.04}, height | {"height": 1}, height | {"height": -1})
    for bad in (*wrong, height | {"step_seconds": 0.0}, height | {"step_seconds": np.nan}, {"floor": 0}):
        with pytest.raises(ValueError, match=r"floor|height"):
            make_buffer(priority="energy", priority_kwargs=bad)
    for bad, alpha in ((np.nan, 0.6), (np.inf, 0.6), (1e300, 2.0)):
        buffer = make_buffer(priority="td_error", priority_kwargs={"alpha": alpha})
        Player(buffer).play([False])
        buffer.sample(1)
        with pytest.raises(ValueError, match=re.escape(str(bad))):
            buffer.update_priorities(np.array([0]), np.array([bad]))
        assert np.isfinite(buffer.priority.tree.total)
