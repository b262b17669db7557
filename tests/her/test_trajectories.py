"""Demonstrations in the replay buffer: a fixed share of each batch, never evicted, relabelled, saved and loaded."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces
from test_saving import assert_same_draw

from rlher import HerReplayBuffer, RunError, Trajectory
from tests.support.her_play import SPACE, Player, make_buffer, sparse

FIRST = 10_000
"""Smallest achieved goal of a demonstration; those of played steps are smaller."""


def demonstration(start: int, steps: int, goals=None, terminated=False) -> Trajectory:
    """Return an episode whose achieved goals count up from ``start``."""
    achieved = np.arange(start, start + steps + 1, dtype=np.float64).reshape(-1, 1)
    goals = np.full_like(achieved, -start) if goals is None else np.reshape(goals, (-1, 1)).astype(np.float64)
    observations = {"observation": np.repeat(achieved, 2, axis=1), "achieved_goal": achieved, "desired_goal": goals}
    return Trajectory(observations, np.linspace(-1, 1, steps).reshape(-1, 1), -np.ones(steps), terminated)


DEMONSTRATIONS = [demonstration(FIRST, 5), demonstration(FIRST + 100, 3, terminated=True)]
MOVING = [demonstration(FIRST, 5), demonstration(FIRST + 100, 3, goals=[1, 2, 3, 4])]


def play(buffer: HerReplayBuffer, steps: int, length: int = 7) -> Player:
    player = Player(buffer, buffer.n_envs)
    for step in range(1, steps + 1):
        player.play([step % length == 0] * buffer.n_envs)
    return player


def is_demonstration(batch) -> np.ndarray:
    return (batch.observations["achieved_goal"] >= FIRST).numpy()[:, 0]


@pytest.mark.parametrize("priority", ["uniform", "energy", "td_error"])
@pytest.mark.parametrize(("n_envs", "n_steps"), [(1, 1), (3, 1), (1, 3)])
def test_each_batch_has_the_same_share_after_any_number_of_evictions(priority, n_envs, n_steps) -> None:
    buffer = make_buffer(60, n_envs, demonstrations=DEMONSTRATIONS, priority=priority, n_steps=n_steps)
    play(buffer, 200)
    batch = buffer.sample(80)
    places = np.zeros(80, dtype=bool)
    places[batch.demonstration_slice] = True
    assert places.sum() == 10
    assert (is_demonstration(batch) == places).all()
    original = np.arange(80) < 16
    assert (places & original).sum() == 2
    goals = batch.observations["desired_goal"].numpy()[:, 0]
    assert (goals[original] < 0).all()
    assert (goals[places & ~original] > FIRST).all(), "achieved in a demonstration"
    assert (goals[~places & ~original] < FIRST).all()
    share = batch.demonstration_slice
    seen = np.concatenate([buffer.sample(80).observations["achieved_goal"][share] for _ in range(40)])
    assert set(seen[:, 0]) == {*range(FIRST, FIRST + 5), *range(FIRST + 100, FIRST + 103)}
    assert buffer.n_transitions <= 60


def test_virtual_transitions_of_demonstrations_have_goals_of_their_future_and_their_reward() -> None:
    options = {"demonstration_fraction": 0.5, "relabel_done": "success", "success_reward": 0.0}
    buffer = make_buffer(100, demonstrations=DEMONSTRATIONS, **options)
    play(buffer, 20)
    batch = buffer.sample(1000)
    places = batch.demonstration_slice
    now, after, goal = (
        part[places].numpy()[:, 0]
        for part in (
            batch.observations["achieved_goal"],
            batch.next_observations["achieved_goal"],
            batch.observations["desired_goal"],
        )
    )
    assert (after == now + 1).all()
    virtual = slice(100, None)
    assert (goal[virtual] > now[virtual]).all()
    assert (goal[virtual] - now[virtual] <= 5).all()
    rewards, dones = batch.rewards[places].numpy()[:, 0], batch.dones[places].numpy()[:, 0]
    assert (rewards[virtual] == np.where(goal == after, 0, -1)[virtual]).all()
    last = now == FIRST + 102  # terminal without reaching the goal
    assert (dones[:100] == last[:100]).all()
    assert (dones[virtual] == ((goal == after) | last)[virtual]).all()


def test_goals_that_move_are_kept_per_step() -> None:
    buffer = make_buffer(100, demonstrations=MOVING, n_sampled_goal=0)
    play(buffer, 20)
    batch = buffer.sample_demonstrations(200)
    now = batch.observations["achieved_goal"].numpy()[:, 0]
    moved = now >= FIRST + 100
    assert (batch.observations["desired_goal"].numpy()[moved, 0] == now[moved] - FIRST - 99).all()
    assert (batch.next_observations["desired_goal"].numpy()[moved, 0] == now[moved] - FIRST - 98).all()
    assert (batch.observations["desired_goal"].numpy()[~moved] == -FIRST).all()


def test_actions_are_stored_as_sb3_stores_them() -> None:
    space = spaces.Box(0.0, 4.0, (1,), np.float32)
    trajectory = Trajectory(demonstration(FIRST, 3).observations, np.array([[0.0], [3.0], [9.0]]), -np.ones(3))
    buffer = HerReplayBuffer(10, SPACE, space, device="cpu", compute_reward=sparse, seed=0)
    buffer.set_demonstrations([trajectory])
    batch = buffer.sample_demonstrations(200)
    now = batch.observations["achieved_goal"].numpy()[:, 0] - FIRST
    assert (batch.actions.numpy()[:, 0] == np.array([-1.0, 0.5, 1.0])[now.astype(int)]).all()


def test_priorities_leave_demonstrations_alone() -> None:
    buffer = make_buffer(100, demonstrations=DEMONSTRATIONS, priority="td_error")
    play(buffer, 50)
    batch = buffer.sample(64)
    places = batch.demonstration_slice
    assert (batch.weights[places] == 1).all()
    before = buffer.priority.tree.leaves.copy()
    buffer.update_priorities(batch.indices[places], np.full(8, 100.0))
    assert (buffer.priority.tree.leaves == before).all()


@pytest.mark.parametrize(("fraction", "count"), [(0.0, 0), (1 / 8, 2), (1.0, 15)])
def test_demonstrations_can_be_drawn_alone_before_the_first_step(fraction, count) -> None:
    buffer = make_buffer(100, demonstrations=DEMONSTRATIONS, demonstration_fraction=fraction)
    batch = buffer.sample_demonstrations(60)
    assert is_demonstration(batch).all()
    assert (batch.observations["desired_goal"] < 0).all(), "the original goals"
    with pytest.raises(RuntimeError, match="empty"):
        buffer.sample(8)
    for _ in range(2):  # they survive a reset
        play(buffer, 20)
        assert is_demonstration(buffer.sample(16)).sum() == count
        buffer.reset()
        assert buffer.n_transitions == 0
    with pytest.raises(RuntimeError, match="no demonstrations"):
        make_buffer().sample_demonstrations(8)


@pytest.mark.parametrize("demonstrations", [DEMONSTRATIONS, MOVING], ids=["fixed goals", "moving goals"])
@pytest.mark.parametrize("sample_first", [False, True])
def test_a_loaded_buffer_continues_exactly(tmp_path, demonstrations, sample_first) -> None:
    """Also one that was built without demonstrations, as for a run whose dataset was deleted."""
    one = make_buffer(60, 2, demonstrations=demonstrations)
    play(one, 10)
    one.save(tmp_path / "buffer.npz")  # before the goal-independent rewards are computed
    if sample_first:
        one.sample(40)
    player = play(one, 100)
    one.save(tmp_path / "buffer.npz")
    for options in ({}, {"demonstrations": demonstrations}):
        two = make_buffer(60, 2, seed=5, **options)
        two.load(tmp_path / "buffer.npz")
        again = pickle.loads(pickle.dumps(one))
        for _ in range(3):
            assert_same_draw(again, two, 40)
    player.play([False, False])
    assert len(one.sample(40).rewards) == 40


@pytest.mark.parametrize(
    ("demonstrations", "message"),
    [
        ([], "no demonstrations"),
        ([demonstration(FIRST, 0)], "no step"),
        ([Trajectory({"observation": np.zeros((3, 2))}, np.zeros((2, 1)), np.zeros(2))], "achieved_goal"),
        ([Trajectory(DEMONSTRATIONS[0].observations, np.zeros((4, 1)), np.zeros(4))], "demonstration 0"),
        ([Trajectory(DEMONSTRATIONS[0].observations, np.zeros((5, 2)), np.zeros(5))], "demonstration 0"),
    ],
)
def test_unsuitable_demonstrations_raise(demonstrations, message) -> None:
    buffer = make_buffer(demonstrations=DEMONSTRATIONS)
    with pytest.raises(ValueError, match=message):
        buffer.set_demonstrations(demonstrations)
    assert buffer.storage.demonstration_steps == sum(map(len, DEMONSTRATIONS))


def test_the_transition_before_the_first_one_is_no_demonstration() -> None:
    buffer = make_buffer(
        demonstrations=DEMONSTRATIONS,
        demonstration_fraction=0.0,
        goal_selection_strategy=lambda request: request.achieved_goals(request.episode_first_ids - 1),
    )
    play(buffer, 3)
    with pytest.raises(RunError, match="IndexError"):
        buffer.sample(8)


def test_demonstrations_are_added_to_empty_buffers_only() -> None:
    buffer = make_buffer(demonstrations=DEMONSTRATIONS)
    play(buffer, 3)
    with pytest.raises(ValueError, match="empty buffer"):
        buffer.set_demonstrations(DEMONSTRATIONS)
