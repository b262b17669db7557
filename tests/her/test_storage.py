"""The storage compared with a plain list of all transitions played."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlher.her.storage import NEARLY_FULL, Storage
from tests.support.her_play import Player, make_buffer


def held(buffer, moving=False):
    """Return all transitions held as (achieved before, achieved after), oldest first."""
    storage = buffer.storage
    slots = np.concatenate([ring.newest(ring.count) for ring in storage.rings])
    rows = storage.rows_of(slots)
    before, after = storage.goals_achieved(rows)[:, 0], storage.goals_achieved(rows + 1)[:, 0]
    episodes = storage.rows["_episode"][rows]
    assert (storage.first[episodes] <= rows).all()
    assert (rows < storage.last[episodes]).all()
    assert moving or (storage.goals(rows, episodes)[:, 0] == -1 - storage.rows["observation"][rows][:, 1]).all()
    return list(zip(before, after, strict=True))


@settings(max_examples=150, deadline=None)
@given(
    capacity=st.integers(1, 30),
    n_envs=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=40),
    reload_at=st.integers(0, 100),
)
def test_the_newest_episodes_are_held_as_a_whole(capacity, n_envs, lengths, reload_at):
    buffer = make_buffer(capacity * n_envs, n_envs)
    player = Player(buffer, n_envs)
    todo = [list(np.roll(lengths, env)) for env in range(n_envs)]
    left = [queue.pop(0) for queue in todo]
    for step in range(60):
        if step == reload_at:  # a save in mid-episode (stable-baselines3 #1542)
            player.buffer = buffer = pickle.loads(pickle.dumps(buffer))
        left = [n - 1 for n in left]
        player.play([n == 0 for n in left])
        left = [n if n else (queue.pop(0) if queue else 5) for n, queue in zip(left, todo, strict=True)]
        check_against_log(buffer, player, capacity)


@settings(max_examples=150, deadline=None)
@given(
    capacity=st.integers(1, 12),
    n_envs=st.integers(1, 3),
    priority=st.sampled_from(["uniform", "energy", "td_error"]),
    what=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=60),
)
def test_a_lost_step_is_not_stored_and_ends_its_episode(capacity, n_envs, priority, what):
    """The other environments' steps are stored, and only transitions that were played are drawn."""
    buffer = make_buffer(capacity * n_envs, n_envs, priority=priority)
    player = Player(buffer, n_envs)
    for ending, breaking in what:  # numbers of environments, some of which do not exist
        player.play([env == ending for env in range(n_envs)], lost=[breaking] if breaking < n_envs else [])
        found = held(buffer)
        for env in range(n_envs):
            count = buffer.storage.rings[env].count
            mine = [entry for entry in player.log if entry[0] == env]
            expected = [(entry[3]["achieved_goal"][0], entry[4]["achieved_goal"][0]) for entry in mine]
            assert found[:count] == expected[len(mine) - count :]
            assert count == len(mine) or len(mine) >= capacity, "an episode was evicted without need"
            found = found[count:]
        if buffer.n_transitions:
            played = {entry[4]["achieved_goal"][0] for entry in player.log}
            assert set(buffer.sample(20).next_observations["achieved_goal"][:, 0].tolist()) <= played


def check_against_log(buffer, player, capacity):
    found = held(buffer)
    assert len(found) == buffer.n_transitions == buffer.storage.count
    for env in range(player.n_envs):
        mine = [entry for entry in player.log if entry[0] == env]
        count = buffer.storage.rings[env].count
        assert 1 <= count <= capacity
        expected = [(entry[3]["achieved_goal"][0], entry[4]["achieved_goal"][0]) for entry in mine[-count:]]
        assert found[:count] == expected
        found = found[count:]
        oldest, newest = mine[-count], mine[-1]
        if oldest[1] == newest[1]:
            continue  # the running episode may have filled the ring and lost its older half
        assert oldest[2] == 0 or _length(mine, oldest[1]) > capacity, "an episode was evicted in part"
        if oldest[1] > 0 and _length(mine, newest[1]) < capacity:
            kept = [entry for entry in mine if entry[1] >= oldest[1] - 1]
            assert len(kept) > NEARLY_FULL * capacity, "an episode was evicted without need"


def _length(log, episode):
    return sum(entry[1] == episode for entry in log)


@settings(max_examples=100, deadline=None)
@given(
    capacity=st.integers(1, 20),
    spare=st.integers(2, 6),
    lengths=st.lists(st.integers(1, 25), min_size=1, max_size=40),
)
def test_with_few_spare_rows_fewer_transitions_are_held(capacity, spare, lengths):
    buffer = make_buffer(capacity)
    buffer.storage = Storage(capacity, 1, buffer.observation_space, buffer.action_space, spare=spare)
    player = Player(buffer)
    for length in lengths:
        for step in range(length):
            player.play([step == length - 1])
            found = held(buffer)
            expected = [(entry[3]["achieved_goal"][0], entry[4]["achieved_goal"][0]) for entry in player.log]
            assert 1 <= len(found) <= capacity
            assert found == expected[-len(found) :]


def play_lengths(buffer, lengths):
    """Store whole episodes of those lengths through the storage; return the least count after each, once full."""
    storage = buffer.storage
    held = []
    for number, length in enumerate(lengths):
        rows = np.zeros(length + 1, dtype=storage.rows.dtype)
        achieved = np.full((length + 1, 1), float(number))
        rows["achieved_goal"], rows["observation"] = achieved, np.arange(length + 1)[:, None]
        storage.extend(0, rows, achieved, np.full((length + 1, 1), float(number)))
        storage.rings[0].end_episode()
        if storage.rings[0].total >= storage.capacity:
            held.append(storage.count)
    return min(held)


@pytest.mark.parametrize(
    ("first", "then"),
    [((100,), (10,)), ((50,), (2,)), ((50,), (1,)), ((60, 40), (3, 1)), ((1,), (50,)), ((20,), (20,))],
)
def test_the_buffer_stays_full_when_episodes_get_shorter(first, then):
    """Three laps: long episodes, shorter ones, long ones again."""
    capacity = 10_000
    buffer = make_buffer(capacity)
    laps = [each * (capacity // sum(each)) for each in (first, then, then, first)]
    least = play_lengths(buffer, [length for lap in laps for length in lap]) / capacity
    print(f"{first} -> {then}: at least {least:.3f} of the capacity held")
    assert least >= 0.97
    storage = buffer.storage
    rows = storage.rows_of(storage.rings[0].newest(storage.count))
    episodes = storage.rows["_episode"][rows]
    assert (storage.achieved[rows, 0] == storage.goals(rows, episodes)[:, 0]).all()
    assert (storage.achieved[rows + 1, 0] == storage.achieved[rows, 0]).all()
    assert (storage.rows["observation"][rows + 1, 0] == storage.rows["observation"][rows, 0] + 1).all()
    shortest = min(min(first), min(then))
    rows_needed = capacity * (1 + 1 / shortest) + max(first)
    assert storage.rings[0].rows_used <= 1.05 * rows_needed


@pytest.mark.parametrize("length", [1, 7, 50])
def test_rows_in_use_do_not_grow_with_episodes_of_one_length(length):
    buffer = make_buffer(10_000)
    play_lengths(buffer, [length] * (50_000 // length))
    assert buffer.storage.rings[0].rows_used <= 10_000 * (1 + 1 / length) + length + 2


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    capacity=st.integers(20, 60),
    phases=st.lists(st.tuples(st.integers(1, 15), st.integers(1, 60)), min_size=2, max_size=5),
    priority=st.sampled_from(["uniform", "td_error", "energy"]),
    save_every=st.integers(5, 40),
)
def test_moved_rows_hold_what_was_played(tmp_path_factory, capacity, phases, priority, save_every):
    """Lengths change from phase to phase; the buffer is saved and loaded in between."""
    folder = tmp_path_factory.mktemp("buffer")
    buffer = make_buffer(capacity, priority=priority)
    player, steps = Player(buffer), 0
    for length, count in phases:
        for step in range(count):
            player.play([step % length == length - 1])
            steps += 1
            check_against_log(buffer, player, capacity)
            played = {entry[4]["achieved_goal"][0] for entry in player.log[-capacity:]}
            assert set(buffer.sample(10).next_observations["achieved_goal"][:, 0].tolist()) <= played
            if steps % save_every == 0:
                buffer.save(folder)
                again = make_buffer(capacity, priority=priority)
                again.load(folder)
                assert held(again) == held(buffer)
                player.buffer = buffer = again


@pytest.mark.parametrize("n_envs", [1, 2])
def test_infos_and_moving_goals_follow_moved_rows(n_envs):
    """Each info and each goal holds the achieved goal of its row."""
    size = 300
    buffer = make_buffer(size * n_envs, n_envs, copy_info_dict=True)

    def observe(number):
        goals = np.full((n_envs, 1), float(number))
        return {"observation": np.zeros((n_envs, 2)), "achieved_goal": goals, "desired_goal": goals}

    number = 0
    for length in [30] * 10 + [2] * 200 + [1] * 100 + [30] * 5:
        for step in range(length):
            number += 1
            ends = np.full(n_envs, step == length - 1)
            infos = [{"number": number, "TimeLimit.truncated": True} for _ in range(n_envs)]
            buffer.add(observe(number), observe(number + 1), np.zeros((n_envs, 1)), np.zeros(n_envs), ends, infos)
        number += 1
        storage = buffer.storage
        rows = np.concatenate([storage.rows_of(ring.newest(ring.count)) for ring in storage.rings])
        achieved = storage.achieved[rows, 0]
        assert (storage.row_goal[rows, 0] == achieved).all()
        assert (storage.row_goal[rows + 1, 0] == storage.achieved[rows + 1, 0]).all()
        assert (storage.achieved[rows + 1, 0] == achieved + 1).all()
        assert [info["number"] for info in storage.infos[rows]] == achieved.tolist()
    assert buffer.n_transitions >= 0.97 * size * n_envs - 30


def test_fewer_spare_rows_are_reserved_where_address_space_is_short(monkeypatch):
    zeros, asked = np.zeros, []

    def short(shape, *args, **kwargs):
        size = shape[0] if isinstance(shape, tuple) else shape
        asked.append(size)
        if size > 1500:
            raise MemoryError
        return zeros(shape, *args, **kwargs)

    monkeypatch.setattr(np, "zeros", short)
    buffer = make_buffer(1000)
    assert max(asked) == 2002
    assert len(buffer.storage.rows) == 1127
    monkeypatch.setattr(np, "zeros", zeros)
    player = Player(buffer)
    for step in range(3000):
        player.play([step % 10 == 9])
    assert buffer.n_transitions >= 990


def test_an_episode_longer_than_the_buffer_keeps_its_newer_part():
    buffer = make_buffer(10)
    player = Player(buffer)
    for _ in range(95):
        player.play([False])
        check_against_log(buffer, player, 10)
        assert buffer.n_transitions >= min(len(player.log), 5)


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
    goals = batch.observations["desired_goal"][1:, 0].numpy()  # the first is a real one
    before = batch.observations["achieved_goal"][1:, 0].numpy()
    assert (goals[before < first_after] < first_after).all()
    assert len(np.unique(goals)) == 10


def test_memory_is_taken_as_it_fills():
    buffer = make_buffer(1_000_000)
    assert buffer.nbytes < 1000
    player = Player(buffer)
    for _ in range(100):
        player.play([False])
    row = buffer.storage.rows.dtype.itemsize
    assert 100 * row <= buffer.nbytes <= 102 * row + 2000
    assert len(pickle.dumps(buffer)) < 20_000


@pytest.mark.parametrize("n_envs", [1, 3])
def test_buffer_size_counts_all_environments(n_envs):
    buffer = make_buffer(30, n_envs)
    player = Player(buffer, n_envs)
    for step in range(200):
        player.play([step % 5 == 4] * n_envs)
    assert buffer.buffer_size == 30 // n_envs
    assert buffer.n_transitions == 30
    assert buffer.full
    assert buffer.size() == 30 // n_envs


def test_whole_episodes_can_be_stored_between_steps():
    buffer = make_buffer(100)
    player = Player(buffer)
    for _ in range(5):
        player.play([False])
    storage = buffer.storage
    rows = np.zeros(4, dtype=storage.rows.dtype)
    rows["observation"] = (0, 7)
    achieved = np.arange(901, 905, dtype=np.float32).reshape(4, 1)
    rows["achieved_goal"] = achieved
    storage.extend(0, rows, achieved, np.full((4, 1), -8, dtype=np.float32))
    for _ in range(5):
        player.play([False])
    before = [entry[3]["achieved_goal"][0] for entry in player.log]
    assert [pair[0] for pair in held(buffer)] == [*before[:5], 901, 902, 903, *before[5:]]
