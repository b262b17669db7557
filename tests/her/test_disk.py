"""The buffer's own form on disk."""

import json
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from play import Player, make_buffer
from test_storage import held


@settings(max_examples=40, deadline=None)
@given(
    capacity=st.integers(1, 30),
    n_envs=st.integers(1, 3),
    length=st.integers(1, 9),
    save_every=st.integers(3, 25),
    moving=st.booleans(),
)
def test_what_is_loaded_is_what_was_saved(tmp_path_factory, capacity, n_envs, length, save_every, moving):
    """Also saved in mid-episode, wrapped around, and going on from what was loaded (stable-baselines3 #1542)."""
    folder = tmp_path_factory.mktemp("buffer")
    buffer = make_buffer(capacity * n_envs, n_envs)
    player = Player(buffer, n_envs)
    for step in range(1, 60):
        if moving and step % 7 == 0:
            player.goal = float(step)
        player.play([(step + env) % length == 0 for env in range(n_envs)])
        if step % save_every == 0:
            player.buffer.save(folder)
            again = make_buffer(capacity * n_envs, n_envs, seed=9)
            again.load(folder)
            assert contents(again) == contents(player.buffer)
            assert (again.pos, again.full) == (player.buffer.pos, player.buffer.full)
            player.buffer = again


def contents(buffer):
    storage = buffer.storage
    rows = storage.rows_of(np.concatenate([ring.newest(ring.count) for ring in storage.rings]))
    now = storage.rows[rows]
    episodes = now["_episode"]
    return (
        storage.goals_achieved(rows).tolist(),
        storage.goals_achieved(rows + 1).tolist(),
        storage.goals(rows, episodes).tolist(),
        storage.goals(rows + 1, episodes).tolist(),
        now["observation"].tolist(),
        now["_action"].tolist(),
        [[ring.total, ring.count, ring.running] for ring in storage.rings],
        np.diff(episodes).astype(bool).tolist(),
    )


def test_a_save_writes_only_what_is_new_and_drops_what_is_evicted(tmp_path):
    buffer = make_buffer(2000)
    player = Player(buffer)
    sizes = []
    for step in range(1, 6001):
        player.play([step % 10 == 0])
        if step % 500 == 0:
            sizes.append(buffer.save(tmp_path))
    assert max(sizes) < 1.2 * min(sizes), "every save writes the same 500 steps"
    assert len(list(tmp_path.glob("part-*.npz"))) <= 5
    assert buffer.save(tmp_path) < 3000


@pytest.mark.parametrize("priority", ["uniform", "td_error"])
def test_the_same_draws_follow_a_load(tmp_path, priority):
    """With priorities by TD error these are the same, too, and so are the weights; the last steps have none yet."""
    buffer = make_buffer(500, priority=priority)
    player = Player(buffer)
    for step in range(700):
        if step % 50 == 49 and priority == "td_error":
            indices = buffer.sample(100).indices
            buffer.update_priorities(indices, 0.1 * indices)
        player.play([step % 9 == 8])
    buffer.save(tmp_path)
    player.play([False])
    buffer.save(tmp_path)
    again = make_buffer(500, seed=5, priority=priority)
    again.load(tmp_path)
    assert held(again) == held(buffer)
    for first, second in zip(buffer.sample(64), again.sample(64), strict=True):
        if isinstance(first, dict):
            assert all((first[key] == second[key]).all() for key in first)
        else:
            assert first is second is None or (first == second).all()
    assert len(list(tmp_path.glob("priorities-*.npz"))) == (priority == "td_error")


@pytest.mark.parametrize(("into", "kept"), [({}, True), ({"alpha": 0.9}, False)])
def test_priorities_are_kept_where_they_mean_the_same(tmp_path, into, kept):
    """The newest in a smaller buffer; with another exponent every transition counts as new."""
    buffer = make_buffer(200, priority="td_error")
    player = Player(buffer)
    for step in range(300):
        player.play([step % 9 == 8])
    slots = buffer.storage.rings[0].newest(buffer.n_transitions)
    buffer.update_priorities(slots, np.linspace(2.0, 9.0, len(slots)))
    buffer.save(tmp_path)
    small = make_buffer(100, priority="td_error", priority_kwargs=into)
    small.load(tmp_path)
    small.sample(1)
    count = small.n_transitions
    found = small.priority.tree.leaves[small.storage.rings[0].newest(count)]
    assert 91 <= count <= 100
    assert (found == (buffer.priority.tree.leaves[slots[-count:]] if kept else 1.0)).all()
    assert (small.priority.tree.leaves > 0).sum() == count
    plain = make_buffer(200)
    plain.load(tmp_path)
    assert held(plain) == held(buffer)


def test_it_can_be_loaded_into_a_smaller_buffer(tmp_path):
    buffer = make_buffer(500)
    player = Player(buffer)
    for step in range(400):
        player.play([step % 9 == 8])
    buffer.save(tmp_path)
    small = make_buffer(100)
    small.load(tmp_path)
    assert held(small) == held(buffer)[-small.n_transitions :]
    assert 91 <= small.n_transitions <= 100


def test_nothing_in_it_is_pickled(tmp_path):
    buffer = make_buffer(500)
    Player(buffer).play([False])
    buffer.save(tmp_path)
    (part,) = tmp_path.glob("part-*.npz")
    np.savez(part, **{"rows0": np.array([object()], dtype=object)})
    with pytest.raises((ValueError, pickle.UnpicklingError), match=r"pickle|Object arrays"):
        make_buffer(500).load(tmp_path)


def change_total(folder):
    manifest = json.loads((folder / "buffer.json").read_text())
    manifest["envs"][0]["total"] += 4
    (folder / "buffer.json").write_text(json.dumps(manifest))


def change_part(folder, **arrays):
    (part,) = folder.glob("part-*.npz")
    np.savez(part, **{**np.load(part), **arrays})


def squeeze(folder):
    (part,) = folder.glob("part-*.npz")
    np.savez_compressed(part, **np.load(part))


def cut(folder):
    (part,) = folder.glob("part-*.npz")
    part.write_bytes(part.read_bytes()[:-30])


def spoil_priorities(folder):
    (file,) = folder.glob("priorities-*.npz")
    np.savez(file, **{**np.load(file), "env0": np.full(20, np.nan)})


@pytest.mark.parametrize(
    "damage",
    [
        change_total,
        cut,
        squeeze,
        spoil_priorities,
        partial(change_part, pieces0=np.array([[5, 0], [-1, 0], [16, 0]])),
        partial(change_part, achieved0=np.zeros((1, 1), np.float32)),
        partial(change_part, start0=np.array([1, 2])),
        lambda folder: next(folder.glob("part-*.npz")).unlink(),
        lambda folder: (folder / "buffer.json").write_text('{"version": 1, "envs": [3]}'),
    ],
)
def test_a_damaged_folder_is_refused_and_nothing_is_stored(tmp_path, damage):
    buffer = make_buffer(100, priority="td_error")
    player = Player(buffer)
    for step in range(20):
        player.play([step % 5 == 4])
    buffer.save(tmp_path)
    make_buffer(100, priority="td_error").load(tmp_path)
    damage(tmp_path)
    other = make_buffer(100, priority="td_error")
    with pytest.raises(ValueError, match="damaged"):
        other.load(tmp_path)
    assert other.n_transitions == 0


def test_what_cannot_be_loaded_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no replay buffer"):
        make_buffer().load(tmp_path)
    buffer = make_buffer(n_envs=2)
    Player(buffer, 2).play([False, False])
    buffer.save(tmp_path)
    with pytest.raises(ValueError, match="2 environments"):
        make_buffer().load(tmp_path)
    manifest = json.loads((tmp_path / "buffer.json").read_text())
    (tmp_path / "buffer.json").write_text(json.dumps(manifest | {"version": 99}))
    with pytest.raises(ValueError, match="this version"):
        make_buffer(n_envs=2).load(tmp_path)
    with pytest.raises(ValueError, match="copy_info_dict"):
        make_buffer(copy_info_dict=True).save(tmp_path)
