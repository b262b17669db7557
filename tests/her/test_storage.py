"""The storage compared with a plain list of all transitions played."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from rlher import HerReplayBuffer
from rlher.her.storage import IDS_PER_ENV
from tests.support.her_play import ACTION, Player, make_buffer, sparse


def transitions(buffer):
    """Return all transitions stored, oldest first: goals achieved before and after, goals desired before and after."""
    storage = buffer.storage
    ids = storage.all_ids()
    positions = storage.positions(ids)
    rows = storage.rows_at(positions)
    next_obs = storage.next_obs(ids, rows["episode"])
    episodes = rows["episode"]
    assert (storage.episode_first_id[episodes] <= ids).all()
    assert (ids <= storage.episode_last_id[episodes]).all()
    assert (next_obs["achieved_goal"] == storage.next_achieved_goals[positions]).all()
    columns = [obs[key][:, 0] for key in ("achieved_goal", "desired_goal") for obs in (rows["obs"], next_obs)]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def check_against_log(buffer, player, capacity):
    """Compare the storage with the newest transitions of the log, and the bounds of episodes with those of the log."""
    storage, expected = buffer.storage, []
    for env in range(player.n_envs):
        mine = [entry for entry in player.log if entry[0] == env][-capacity:]
        expected += [
            tuple(obs[key][0] for key in ("achieved_goal", "desired_goal") for obs in entry[3:5]) for entry in mine
        ]
        first = storage.steps_added - len(mine)
        ids = env * IDS_PER_ENV + np.arange(first, storage.steps_added)
        for number, entry in enumerate(mine):
            same = [index for index, other in enumerate(mine) if other[1] == entry[1]]
            (episode,) = storage.rows["episode"][storage.positions(ids[number : number + 1])]
            bounds = storage.episode_first_id[episode], storage.episode_last_id[episode]
            assert bounds == tuple(ids[index] for index in (same[0], same[-1]))
        assert first == max(storage.steps_added - capacity, 0)
    assert transitions(buffer) == expected
    assert buffer.n_transitions == len(expected)


@settings(max_examples=30, deadline=None)
@given(
    capacity=st.integers(1, 80),
    n_envs=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 100), min_size=1, max_size=40),
    moving=st.booleans(),
    reload_at=st.integers(0, 250),
    data=st.data(),
)
def test_the_newest_transitions_are_stored(capacity, n_envs, lengths, moving, reload_at, data):
    """Wrapped around, with episodes longer than the capacity, goals that move, lost steps and pickling."""
    buffer = make_buffer(capacity * n_envs, n_envs)
    player = Player(buffer, n_envs)
    left = [lengths[env % len(lengths)] for env in range(n_envs)]
    checked = set(data.draw(st.lists(st.integers(0, 199), max_size=6), "checked")) | {199}
    for step in range(200):
        if step == reload_at:  # a save in mid-episode (stable-baselines3 #1542)
            player.buffer = buffer = pickle.loads(pickle.dumps(buffer))
        if moving and step % 11 == 5:
            player.goal = float(step)
        left = [n - 1 for n in left]
        player.play([n == 0 for n in left], lost=step % 17 == 3)
        left = [n if n > 0 else lengths[(step + env) % len(lengths)] for env, n in enumerate(left)]
        if step in checked:
            check_against_log(buffer, player, capacity)
    assert buffer.full
    assert buffer.size() == buffer.buffer_size == capacity


@settings(max_examples=25, deadline=None)
@given(
    capacity=st.integers(1, 12),
    n_envs=st.integers(1, 3),
    priority=st.sampled_from(["uniform", "energy", "td_error"]),
    what=st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=60),
)
def test_a_lost_step_is_not_stored_and_ends_the_episodes(capacity, n_envs, priority, what):
    """Only transitions that are stored are sampled."""
    buffer = make_buffer(capacity * n_envs, n_envs, priority=priority)
    player = Player(buffer, n_envs)
    for ending, lost in what:  # numbers of environments, some of which do not exist
        player.play([env == ending for env in range(n_envs)], lost=lost)
        check_against_log(buffer, player, capacity)
        assert buffer.size() * n_envs == buffer.n_transitions
        if buffer.n_transitions:
            newest = {after for _, after, *_ in transitions(buffer)}
            assert set(buffer.sample(20).next_observations["achieved_goal"][:, 0].tolist()) <= newest


def test_keys_of_observations_may_have_any_name():
    box = spaces.Box(-1, 1, (2,), np.float32)
    space = spaces.Dict(dict.fromkeys(("achieved_goal", "desired_goal", "_action", "reward", "episode"), box))
    buffer = HerReplayBuffer(10, space, ACTION, device="cpu", compute_reward=sparse, n_sampled_goal=0)
    obs = {key: np.full((1, 2), number / 10) for number, key in enumerate(space.spaces)}
    buffer.add(obs, obs, np.ones((1, 1)), np.array([5.0]), np.array([True]), [{}])
    batch = buffer.sample(3)
    assert {key: float(value[0, 0]) for key, value in batch.observations.items()} == pytest.approx(
        {key: number / 10 for number, key in enumerate(space.spaces)}
    )
    assert (float(batch.actions[0]), float(batch.rewards[0])) == (1.0, 5.0)


def test_a_reset_between_two_calls_of_learn_begins_a_new_episode():
    """SB3 joins the halves: `learn` resets the environment without a `done`."""
    buffer = make_buffer(100, n_sampled_goal=10**6)
    player = Player(buffer)
    for _ in range(5):
        player.play([False])
    player.begin()
    first_after = player.counter
    for _ in range(5):
        player.play([False])
    batch = buffer.sample(500)
    goals = batch.observations["desired_goal"][1:, 0].numpy()  # the first has its original goal
    before = batch.observations["achieved_goal"][1:, 0].numpy()
    assert (goals[before < first_after] < first_after).all()
    assert len(np.unique(goals)) == 10


def test_memory_is_taken_as_it_fills():
    buffer = make_buffer(1_000_000)
    player = Player(buffer)
    for _ in range(100):
        player.play([False])
    assert len(pickle.dumps(buffer)) < 20_000
