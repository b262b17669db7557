"""The buffer in place of SB3's, with SB3's own algorithms and environments."""

import pickle
import warnings

import numpy as np
import pytest
from gymnasium import spaces
from sb3_contrib import TQC
from scipy.stats import ks_2samp
from stable_baselines3 import DDPG, DQN, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy as SB3Strategy
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as SB3Buffer

from rlher.her import STRATEGIES, HerReplayBuffer


def bits(n_bits=4, **kwargs):
    return lambda: BitFlippingEnv(n_bits=n_bits, **kwargs)


def make_model(algo, env, steps=150, size=2000, policy="MultiInputPolicy", **buffer):
    kwargs = {"n_sampled_goal": 2, "goal_selection_strategy": "future"} | buffer
    model = algo(
        policy,
        env,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs=kwargs,
        policy_kwargs={"net_arch": [16]},
        learning_starts=20,
        train_freq=4,
        buffer_size=size,
        batch_size=32,
        seed=1,
    )
    return model.learn(steps)


@pytest.mark.parametrize(("algo", "n_envs"), [(SAC, 1), (TD3, 2), (DDPG, 1), (DQN, 2), (TQC, 2)])
def test_every_algorithm_trains(algo, n_envs):
    env = make_vec_env(bits(continuous=algo is not DQN), n_envs)
    buffer = make_model(algo, env, copy_info_dict=n_envs == 2).replay_buffer
    assert isinstance(buffer, SB3Buffer)
    assert buffer.n_transitions >= 140
    assert buffer.relabeller.reward_and_done.done_mode == "success"


@pytest.mark.parametrize("strategy", [*STRATEGIES, SB3Strategy.EPISODE])
def test_every_strategy_trains_and_keeps_reward_and_done_together(strategy):
    model = make_model(SAC, make_vec_env(bits(continuous=True), 2), goal_selection_strategy=strategy)
    batch = model.replay_buffer.sample(600)
    assert ((batch.rewards[200:] == 0) == (batch.dones[200:] == 1)).all()


@pytest.mark.parametrize("space", [{"discrete_obs_space": True}, {"image_obs_space": True, "channel_first": True}])
def test_discrete_and_image_goals(space):
    model = make_model(DQN, make_vec_env(bits(continuous=False, **space), 2), size=300, steps=40)
    batch = model.replay_buffer.sample(10)
    wanted = np.dtype(np.uint8 if "image_obs_space" in space else np.int64)
    assert model.replay_buffer.storage.next_achieved.dtype == wanted
    for key, part in model.observation_space.spaces.items():
        shape = part.shape or (1,)
        assert batch.observations[key].shape == batch.next_observations[key].shape == (10, *shape)


@pytest.mark.parametrize("options", [{}, {"n_steps": 2, "priority": "td_error"}])
def test_samples_are_on_the_device_of_the_buffer(options):
    """Tensors of the device `meta` hold no data, but are distinguishable from those of the processor."""
    buffer = make_model(SAC, make_vec_env(bits(continuous=True), 1), steps=0, **options).replay_buffer
    buffer.device = "meta"  # as load_replay_buffer sets it, after the buffer was built
    obs = {key: np.zeros((1, 4)) for key in ("observation", "achieved_goal", "desired_goal")}
    buffer.add(obs, obs, np.zeros((1, 4)), np.zeros(1), np.array([False]), [{}])
    batch = buffer.sample(8)
    tensors = [*batch.observations.values(), *batch.next_observations.values(), batch.actions]
    tensors += [each for each in (batch.dones, batch.rewards, batch.discounts, batch.weights) if each is not None]
    assert {(tensor.device.type, len(tensor)) for tensor in tensors} == {("meta", 8)}


@pytest.mark.parametrize(("n_steps", "priority"), [(1, "energy"), (3, "uniform"), (3, "td_error")])
def test_sb3_algorithms_train_with_n_step_returns_and_priorities(n_steps, priority):
    env = make_vec_env(bits(continuous=True), 1)
    model = make_model(SAC, env, steps=60, n_steps=n_steps, gamma=0.99, priority=priority)
    batch = model.replay_buffer.sample(16)
    assert (batch.discounts is None) == (n_steps == 1)
    assert (batch.weights is None) == (batch.indices is None) == (priority != "td_error")


@pytest.mark.parametrize("truncate", [False, True])
def test_model_and_buffer_are_saved_and_loaded(tmp_path, truncate):
    env = make_vec_env(bits(continuous=True), 2)
    model = make_model(SAC, env)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    assert (tmp_path / "buffer.pkl").stat().st_size < 100_000, "only what was written to is pickled"
    loaded = SAC.load(tmp_path / "model", env=env)
    assert loaded.replay_buffer.n_transitions == 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=truncate)
    assert any("will be truncated" in str(w.message) for w in caught) == truncate
    assert loaded.replay_buffer.n_transitions == model.replay_buffer.n_transitions
    assert loaded.replay_buffer.env is env
    loaded.learn(60, reset_num_timesteps=False)
    with pytest.raises(ValueError, match="already initialized"):
        loaded.replay_buffer.set_env(env)


def test_a_pickled_buffer_has_no_environment_and_asks_for_one():
    model = make_model(SAC, make_vec_env(bits(continuous=True), 1))
    again = pickle.loads(pickle.dumps(model.replay_buffer))
    assert again.env is None
    with pytest.raises(RuntimeError, match="set_env"):
        again.sample(10)


class Line(BitFlippingEnv):
    """An environment with goals on a line, reached within 1, and too large to stay as they are when normalised."""

    def __init__(self):
        super().__init__(n_bits=2, continuous=True)
        box = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.observation_space = spaces.Dict({key: box for key in ("observation", "achieved_goal", "desired_goal")})
        self.position = 0.0

    def _obs(self):
        here = np.array([self.position])
        return {"observation": here, "achieved_goal": here, "desired_goal": np.array([500.0])}

    def reset(self, **kwargs):
        self.position, self.left = 0.0, 10
        return self._obs(), {}

    def step(self, action):
        self.position, self.left = self.position + 100.0 * float(action[0]), self.left - 1
        obs = self._obs()
        reward = float(self.compute_reward(obs["achieved_goal"], obs["desired_goal"], {}))
        return obs, reward, False, self.left == 0, {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.abs(achieved_goal - desired_goal) > 1).any(axis=-1).astype(np.float32)


def test_rewards_are_computed_on_raw_goals_under_normalisation():
    """SB2 #794."""
    inner = DummyVecEnv([Line])
    env = VecNormalize(inner, norm_reward=False, clip_obs=1000.0)
    ends = []
    step_wait = inner.step_wait

    def recorded():
        result = step_wait()
        for done, info in zip(result[2], result[3], strict=True):
            if done:
                ends.append(float(info["terminal_observation"]["achieved_goal"][0]))
        return result

    inner.step_wait = recorded
    model = make_model(SAC, env, steps=200)
    storage = model.replay_buffer.storage
    finals = storage.next_achieved[storage.positions(storage.last_id[: len(ends)]), 0]
    assert np.allclose(finals, ends, atol=0.01), "final observations are stored raw"
    raw = model.replay_buffer.sample(300)
    gap = (raw.next_observations["achieved_goal"] - raw.next_observations["desired_goal"]).abs()
    assert ((raw.rewards == 0) == (gap <= 1)).all()
    assert raw.observations["achieved_goal"].abs().max() > 50
    normalised = model.replay_buffer.sample(300, env=env)
    assert normalised.observations["achieved_goal"].abs().max() < 10
    assert set(np.unique(normalised.rewards)) <= {-1.0, 0.0}


SB3_RELABELLING = {"relabel_done": "keep", "keep_goal_independent_reward": False}


def filled_twice(strategy, steps=399, lengths=(6, 6), size=400, **options):
    """Our buffer with SB3's done and reward, and SB3's own, after the same steps of two environments."""
    env = DummyVecEnv([bits(20, continuous=True, max_steps=length) for length in lengths])
    env.seed(0)
    args = (size * 2, env.observation_space, env.action_space)
    kwargs = {"env": env, "device": "cpu", "n_envs": 2, "n_sampled_goal": 4, "goal_selection_strategy": strategy}
    buffers = (
        HerReplayBuffer(*args, **SB3_RELABELLING, seed=0, **kwargs | options),
        SB3Buffer(*args, **kwargs | options),
    )
    obs = env.reset()
    rng = np.random.default_rng(0)
    for _ in range(steps):
        actions = rng.uniform(-1, 1, (2, *env.action_space.shape)).astype(np.float32)
        new, rewards, dones, infos = env.step(actions)
        after = {key: value.copy() for key, value in new.items()}
        for index in np.flatnonzero(dones):
            for key, value in infos[index]["terminal_observation"].items():
                after[key][index] = value
        for buffer in buffers:
            buffer.add(obs, after, actions, rewards, dones, infos)
        obs = new
    return buffers


def assert_same_distribution(buffers):
    """Sum everything a batch holds with random weights into one number per row, and compare the numbers."""
    weights = np.random.default_rng(1).normal(size=200)

    def digest(batch):
        parts = [part[key] for part in (batch.observations, batch.next_observations) for key in sorted(part)]
        parts += [batch.actions, batch.dones, batch.rewards]
        rows = np.concatenate([part.numpy().reshape(len(part), -1).astype(float) for part in parts], axis=1)
        return rows @ weights[: rows.shape[1]]

    np.random.seed(0)
    ours, theirs = (digest(buffer.sample(20_000)) for buffer in buffers)
    assert ks_2samp(ours[:4000], theirs[:4000]).pvalue > 1e-4, "real transitions"
    assert ks_2samp(ours[4000:], theirs[4000:]).pvalue > 1e-4, "virtual transitions"
    if buffers[0].n_transitions < 200:
        found, expected = (np.unique(each[:4000].round(4)) for each in (ours, theirs))
        np.testing.assert_allclose(found, expected, atol=2e-4, err_msg="the same real transitions can be drawn")


RUNNING = {"steps": 70, "lengths": (31, 43)}
"""Episodes of which the last ones, 8 and 27 steps long, still run: a quarter of all transitions."""


@pytest.mark.parametrize(("strategy", "handled"), [("future", True), ("final", False), ("episode", True)])
def test_sb3_relabelling_gives_the_same_distribution(strategy, handled):
    assert_same_distribution(filled_twice(strategy, steps=396, handle_timeout_termination=handled))


@pytest.mark.parametrize("handled", [True, False])
def test_truncated_episodes_give_the_same_distribution(handled):
    buffers = filled_twice("future", handle_timeout_termination=handled, **RUNNING)
    for buffer in buffers:
        with pytest.warns(UserWarning, match="truncate_last_trajectory"):
            buffer.truncate_last_trajectory()
    assert_same_distribution(buffers)


def test_samples_are_possible_from_the_first_step_on():
    """SB3's "Unable to sample before the end of the first episode" (rl-baselines3-zoo #433)."""
    model = make_model(SAC, make_vec_env(bits(12, continuous=True), 1), steps=0)
    model.learning_starts, model.train_freq = 1, model.train_freq._replace(frequency=1)
    model.learn(5)
    with pytest.raises(RuntimeError, match="empty"):
        make_model(SAC, make_vec_env(bits(continuous=True), 1), steps=0).replay_buffer.sample(1)


def test_seeded_runs_repeat():
    """Without a seed of its own the buffer follows the one SB3 is given."""
    batches = []
    for _ in range(2):
        model = make_model(SAC, make_vec_env(bits(continuous=True), 1, seed=3), steps=60)
        batches.append(model.replay_buffer.sample(50))
    assert (batches[0].rewards == batches[1].rewards).all()
    assert (batches[0].actions == batches[1].actions).all()
