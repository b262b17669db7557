"""Which goals the strategies draw, and how often."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from stable_baselines3.her import GoalSelectionStrategy as SB3Strategy

from rlher.her.strategies import STRATEGIES, GoalRequest, resolve_strategy
from tests.support.her_play import Player, make_buffer

GAMMA = 0.95

RANGES = {  # transitions of an episode of T steps whose outcome may be the goal of transition t
    "future": lambda t, T: range(t, T),
    "final": lambda t, T: [T - 1],
    "episode": lambda t, T: range(T),
    "geometric": lambda t, T: range(t, T),
}


class IdRequest(GoalRequest):
    """A request whose goals are the ids of transitions, below 0 if the desired goal was asked for."""

    def achieved_goals(self, ids):
        return ids

    def desired_goals(self, ids):
        return -1 - ids


def sample_many(name, t, T, count=20_000, first=100, gamma=GAMMA, **options):
    episode = {"episode_first_id": np.array([first]), "episode_last_id": np.array([first + T - 1])}
    goals = {"n_transitions": 20, "sample": lambda n, rng: np.full(n, 7), "next_achieved_goals": np.zeros(1, int)}
    storage = SimpleNamespace(**episode, **goals)
    request = IdRequest(np.full(count, first + t), np.zeros(count, int), storage, np.random.default_rng(0), gamma)
    return resolve_strategy(name, **options)(request) - first


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(sorted(RANGES)),
    capacity=st.integers(1, 30),
    n_envs=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    reload_at=st.integers(0, 60),
)
def test_batches_hold_goals_of_their_own_episodes(name, capacity, n_envs, lengths, reload_at):
    """Wrapped around, with episodes longer than the ring (SB3 #234) and a save in mid-episode (SB3 #1542)."""
    buffer = make_buffer(capacity * n_envs, n_envs, goal_selection_strategy=name, n_sampled_goal=10**6)
    player = Player(buffer, n_envs)
    left = [lengths[env % len(lengths)] for env in range(n_envs)]
    for step in range(60):
        if step == reload_at:
            player.buffer = buffer = pickle.loads(pickle.dumps(buffer))
        left = [n - 1 for n in left]
        player.play([n == 0 for n in left])
        left = [n or lengths[(step + env) % len(lengths)] for env, n in enumerate(left)]
        if step % 4:
            continue
        achieved = {entry[4]["achieved_goal"][0]: entry[:3] for entry in player.log}
        batch = buffer.sample(20)
        after, goal, same = (
            part["achieved_goal" if number == 0 else "desired_goal"][1:, 0].tolist()  # the first has its original goal
            for number, part in enumerate((batch.next_observations, batch.next_observations, batch.observations))
        )
        assert goal == same, "before and after share the goal"
        for (env, episode, t), wanted in zip(map(achieved.get, after), map(achieved.get, goal), strict=True):
            newest = max(entry[2] for entry in player.log if entry[:2] == (env, episode))
            assert wanted[:2] == (env, episode)
            oldest = min(entry[2] for entry in player.log[-capacity * n_envs :] if entry[:2] == (env, episode))
            assert wanted[2] >= oldest
            assert wanted[2] in RANGES[name](t, newest + 1)


@pytest.mark.parametrize("name", ["future", "episode"])
@pytest.mark.parametrize(("t", "T"), [(0, 7), (3, 50), (48, 50), (0, 2)])
def test_offsets_are_uniform(name, t, T):
    """Rounding instead of flooring gives end points half weight (mrl, tianshou): p-value 0 here."""
    allowed = list(RANGES[name](t, T))
    offsets = sample_many(name, t, T, count=50_000)
    assert chisquare([np.sum(offsets == k) for k in allowed]).pvalue > 1e-4


@pytest.mark.parametrize(("t", "T", "gamma"), [(0, 10, 0.8), (5, 60, 0.95), (8, 10, 0.5)])
def test_geometric_offsets_are_discounted(t, T, gamma):
    offsets = sample_many("geometric", t, T, count=50_000, gamma=gamma)
    weight = gamma ** np.arange(T - t)
    seen = [np.sum(offsets == k) for k in range(t, T)]
    assert chisquare(seen, weight / weight.sum() * 50_000).pvalue > 1e-4


def test_mix_follows_its_weights():
    weights = {"future": 4, "final": 3, "random": 1, "original": 2, "episode": 0}
    ids = sample_many("mix", 48, 50, count=50_000, mix_weights=weights) + 100
    counts = [np.sum(ids == 148), np.sum(ids == 149), np.sum(ids == 7), np.sum(ids == -1 - 148)]
    assert chisquare(counts, [10_000, 25_000, 5_000, 10_000]).pvalue > 1e-4


@pytest.mark.parametrize(("start", "goals"), [(20, {149}), (21, {148, 149})])
def test_mix_has_its_weights_from_the_start_on(start, goals):
    """Twenty transitions are stored."""
    ids = sample_many("mix", 48, 50, count=100, mix_weights={"final": 1}, mix_start=start) + 100
    assert set(ids) == goals


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_desired_goals_are_those_of_all_stored_transitions(per_row, n_steps):
    buffer = make_buffer(1000, 2, goal_selection_strategy="desired", n_sampled_goal=10**6, n_steps=n_steps)
    player = Player(buffer, 2)
    for step in range(240):
        player.goal = -100.0 - step if per_row else None
        player.play([step % 40 == 39, step % 20 == 19])
    stored = [entry[3]["desired_goal"][0] for entry in player.log]
    batch = buffer.sample(40_000)
    drawn = batch.observations["desired_goal"][1:, 0].numpy()
    values, counts = np.unique(stored, return_counts=True)
    assert set(drawn) <= set(values)
    seen = np.array([np.sum(drawn == value) for value in values])
    assert chisquare(seen, counts / counts.sum() * len(drawn)).pvalue > 1e-4
    assert (drawn == batch.next_observations["desired_goal"][1:, 0].numpy()).all()
    assert (batch.rewards < 0).all(), "they lie elsewhere than what is achieved"


def test_strategies_are_found_by_name_and_by_sb3s_enumeration():
    for name in STRATEGIES:
        strategy = resolve_strategy(name)
        assert getattr(strategy, "func", strategy) is STRATEGIES[name]
    for member in SB3Strategy:
        assert resolve_strategy(member) is resolve_strategy(member.name.lower())


def test_a_function_can_be_a_strategy():
    """It may choose achieved and desired goals."""

    def of_three_kinds(request):
        wanted, first = request.desired_goals(request.ids), request.desired_goals(request.episode_first_ids)
        kinds = [wanted, request.achieved_goals(request.episode_last_ids), first]
        return np.choose(np.arange(len(request))[:, None] % 3, kinds)

    buffer = make_buffer(500, goal_selection_strategy=of_three_kinds, n_sampled_goal=10**6)
    player = Player(buffer)
    for step in range(200):
        player.play([step % 20 == 19])
    batch = buffer.sample(301)
    goals = batch.observations["desired_goal"][1:, 0].numpy()
    original = -1 - batch.observations["observation"][1:, 1].numpy()
    finals = {entry[1]: entry[4]["achieved_goal"][0] for entry in player.log}
    assert (goals[0::3] == original[0::3]).all()
    assert (goals[2::3] == original[2::3]).all()
    assert goals[1::3].tolist() == [finals[-1 - goal] for goal in original[1::3]]


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float16])
def test_a_strategy_may_return_numbers_of_any_type(dtype):
    batches = []
    for own in (np.float64, dtype):
        strategy = lambda request, own=own: request.achieved_goals(request.episode_last_ids).astype(own)  # noqa: E731
        buffer = make_buffer(500, goal_selection_strategy=strategy, seed=1)
        Player(buffer).play([True])
        batches.append(buffer.sample(50).observations["desired_goal"])
    assert (batches[0] == batches[1]).all()


@pytest.mark.parametrize(
    "weights", [{"futur": 1}, {"mix": 1}, {"MIX": 1}, {"future": -1}, {"future": 0}, {"final": float("nan")}]
)
def test_invalid_mixes_are_refused(weights):
    with pytest.raises(ValueError, match="goal_mix"):
        resolve_strategy("mix", mix_weights=weights)
