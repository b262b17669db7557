"""Saving a buffer to a file and loading it."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from test_storage import transitions

from rlher import HerReplayBuffer
from tests.support.her_play import ACTION, SPACE, Player, make_buffer
from tests.support.tiers import slow_except


@pytest.mark.parametrize("priority", slow_except(["td_error", "energy"], ["uniform", "td_error", "energy"]))
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_a_loaded_buffer_continues_exactly_as_the_saved_one(tmp_path_factory, priority, data):
    """Bit for bit: also within an episode, after evictions, and saved again after a load."""
    file, n_envs = tmp_path_factory.mktemp("buffer") / "buffer.npz", data.draw(st.integers(1, 3), "n_envs")
    options = dict(
        size=data.draw(st.integers(1, 30), "capacity") * n_envs,
        n_envs=n_envs,
        priority=priority,
        goal_selection_strategy=data.draw(st.sampled_from(["future", "final", "episode", "random", "mix"]), "strategy"),
    )
    one, two = (Player(make_buffer(**options), n_envs) for _ in range(2))
    moving = data.draw(st.booleans(), "moving")
    lengths = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=6), "lengths")
    save_every, sample_every = data.draw(st.integers(1, 25), "save_every"), data.draw(st.integers(1, 9), "sample_every")
    for step in range(1, 90):
        for player in (one, two):
            if moving and step % 7 == 0:
                player.goal = float(step)
            length = lengths[step // 20 % len(lengths)]
            terminated = [step % 13 == env for env in range(n_envs)]
            ends = [(step + env) % length == 0 or terminated[env] for env in range(n_envs)]
            player.play(ends, rewards=[-float(step % 3)] * n_envs, terminated=terminated)
        if step % sample_every == 0:
            assert_same_draw(one.buffer, two.buffer)
        if step % save_every == 0:
            if step % 2:
                for player in (one, two):
                    player.buffer.storage.truncate_running()
            two.buffer.save(file)
            two.buffer = make_buffer(**options | {"seed": 9})
            two.buffer.load(file)
            assert transitions(two.buffer) == transitions(one.buffer)
            assert (two.buffer.pos, two.buffer.full) == (one.buffer.pos, one.buffer.full)
    assert_same_draw(one.buffer, two.buffer)


def assert_same_draw(one, two, count=8):
    first, second = one.sample(count), two.sample(count)
    for name, value in first._asdict().items():
        other = getattr(second, name)
        if isinstance(value, dict):
            assert all((value[key] == other[key]).all() for key in value), name
        else:
            assert value is other is None or np.asarray(value == other).all(), name
    if first.indices is not None:
        for buffer in (one, two):
            buffer.update_priorities(first.indices, 0.1 * (first.indices % 7))


def change(file, **arrays):
    np.savez(file, **{**np.load(file), **arrays})


def test_pickled_arrays_are_refused(tmp_path):
    buffer = make_buffer(500)
    Player(buffer).play([False])
    buffer.save(tmp_path / "buffer.npz")
    change(tmp_path / "buffer.npz", rows=np.array([object()], dtype=object))
    with pytest.raises(ValueError, match="Object arrays"):
        buffer.load(tmp_path / "buffer.npz")


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-30]),
        Path.unlink,
        partial(change, **{"priorities/priorities": np.full(20, np.nan)}),
        partial(change, episodes=np.array([0, 1, 2, 200])),
        partial(change, next_achieved_goals=np.zeros((1, 1))),
        partial(change, steps_added=np.array(3)),
        partial(change, sizes=np.array([100, 1])),
        partial(change, metadata=np.array('{"version": 13}')),
    ],
)
def test_a_damaged_file_is_refused_and_nothing_is_stored(tmp_path, damage):
    buffer = make_buffer(100, priority="td_error")
    player = Player(buffer)
    for step in range(20):
        player.play([step % 5 == 4])
    buffer.save(tmp_path / "buffer.npz")
    make_buffer(100, priority="td_error").load(tmp_path / "buffer.npz")
    damage(tmp_path / "buffer.npz")
    other = make_buffer(100, priority="td_error")
    with pytest.raises(ValueError, match="cannot be loaded"):
        other.load(tmp_path / "buffer.npz")
    assert other.n_transitions == 0


def test_unsuitable_files_are_refused(tmp_path):
    np.savez(tmp_path / "buffer.npz", rows=np.zeros(3))
    with pytest.raises(ValueError, match=re.escape(str(tmp_path))):
        make_buffer().load(tmp_path / "buffer.npz")
    buffer = make_buffer(n_envs=2)
    Player(buffer, 2).play([False, False])
    buffer.save(tmp_path / "buffer.npz")
    for other in (make_buffer(), make_buffer(2000, n_envs=2)):
        with pytest.raises(ValueError, match="n_envs=2"):
            other.load(tmp_path / "buffer.npz")
    of_float32 = spaces.Dict({**SPACE.spaces, "achieved_goal": spaces.Box(-np.inf, np.inf, (1,), np.float32)})
    with pytest.raises(ValueError, match="other spaces"):
        HerReplayBuffer(1000, of_float32, ACTION, n_envs=2).load(tmp_path / "buffer.npz")
    change(tmp_path / "buffer.npz", metadata=np.array('{"version": 99}'))
    with pytest.raises(ValueError, match="version"):
        make_buffer(n_envs=2).load(tmp_path / "buffer.npz")
