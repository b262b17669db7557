"""Action noise, held random actions, and schedules of the learning rate."""

import json

import numpy as np
import pytest
from gymnasium import spaces

from rlher.algos.exploration import RandomActions
from rlher.algos.schedules import make_schedule
from rlher.core.errors import UserError
from tests.support.models import from_config, ours

BOX = spaces.Box(-1, 1, (2,), np.float32)


def test_each_environment_has_its_noise():
    model = from_config("ddpg", n_envs=2, action_noise=0.2, learning_starts=0)
    model.learn(20)
    noise = np.array([model.action_noise() for _ in range(1000)])
    assert noise.std(axis=0) == pytest.approx(np.full((2, 4), 0.2), rel=0.1)
    assert (noise[:, 0] != noise[:, 1]).all()
    assert from_config("ddpg", action_noise=0.0).action_noise is None


@pytest.mark.parametrize("n_envs", [1, 2])
def test_the_state_of_held_actions_can_be_restored(n_envs):
    one, other = (RandomActions(BOX, 0.5, 3, n_envs) for _ in range(2))
    played(one, 1, n_envs, warm_up=True)
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    continuations = []
    for random_actions in (one, other):
        np.random.seed(4)
        BOX.seed(4)
        continuations.append(played(random_actions, 3, n_envs))
    np.testing.assert_array_equal(*continuations)


def played(random_actions, steps, n_envs=1, warm_up=False):
    """Return (steps, n_envs) first entries of the actions; 9 where the agent's own was kept."""
    rows = []
    for _ in range(steps):
        actions = np.full((n_envs, 2), 9.0)
        random_actions.replace(actions, warm_up)
        rows.append(actions[:, 0])
    return np.array(rows)


@pytest.mark.parametrize(("hold", "n_envs"), [(1, 1), (5, 3)])
def test_random_actions_are_held_and_keep_their_share(hold, n_envs):
    np.random.seed(0)
    rows = played(RandomActions(BOX, 0.3, hold, n_envs), 6000, n_envs)
    assert (rows != 9).mean() == pytest.approx(0.3, abs=0.03)
    for env in range(n_envs):
        values, counts = np.unique(rows[:-hold, env][rows[:-hold, env] != 9], return_counts=True)
        assert len(values) > 100
        assert (counts == hold).mean() > 0.99


def test_no_action_is_held_beyond_the_end_of_its_episode():
    model = ours("ddpg", random_action=1.0, random_action_hold=100, learning_starts=0)
    actions = model.replay_buffer.storage.rows["action"][:, 0]
    storage = model.replay_buffer.storage
    episodes = storage.episodes(0)[: -1 if storage.is_running[0] else None]
    held = [actions[storage.episode_first_id[episode] : storage.episode_last_id[episode] + 1] for episode in episodes]
    assert len(held) > 5
    assert all(len(np.unique(actions)) == 1 for actions in held)
    assert len({actions[0] for actions in held}) == len(held)


@pytest.mark.parametrize(("kind", "expected"), [("constant", [2, 2, 2, 2]), ("linear", [2, 1.5, 1, 0])])
def test_schedules_of_the_learning_rate(kind, expected):
    model = from_config("sac", learning_rate=2.0, learning_rate_schedule=kind)
    assert [model.lr_schedule(remaining) for remaining in (1, 0.75, 0.5, 0)] == pytest.approx(expected)
    assert make_schedule("constant", 2.0, "key") == 2.0


def test_gsde_is_refused():
    with pytest.raises(UserError):
        from_config("sac", kwargs={"use_sde": True})
