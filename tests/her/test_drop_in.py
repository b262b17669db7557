"""The buffer in place of SB3's, with SB3's own algorithms and environments."""

import pickle
from types import SimpleNamespace

import hostile_envs  # noqa: F401  registers LineEnv-v0
import numpy as np
import pytest
from scipy.stats import ks_2samp
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as SB3Buffer

from rlher import HerReplayBuffer
from tests.support.her_play import ACTION, SPACE, Player, make_buffer, sparse


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


@pytest.mark.parametrize("space", [{"discrete_obs_space": True}, {"image_obs_space": True, "channel_first": True}])
def test_discrete_and_image_goals(space):
    model = make_model(DQN, make_vec_env(bits(continuous=False, **space), 2), size=300, steps=40)
    batch = model.replay_buffer.sample(10)
    wanted = np.dtype(np.uint8 if "image_obs_space" in space else np.int64)
    assert model.replay_buffer.storage.next_achieved_goals.dtype == wanted
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
    columns = (batch.dones, batch.rewards, batch.discounts, batch.weights)
    tensors += [column for column in columns if column is not None]
    assert {(tensor.device.type, len(tensor)) for tensor in tensors} == {("meta", 8)}


@pytest.mark.parametrize("truncate", [False, True])
def test_model_and_buffer_are_saved_and_loaded(tmp_path, truncate):
    env = make_vec_env(bits(continuous=True), 2)
    model = make_model(SAC, env)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    assert (tmp_path / "buffer.pkl").stat().st_size < 100_000, "only what was written to is pickled"
    unpickled = pickle.loads((tmp_path / "buffer.pkl").read_bytes())
    assert unpickled.env is None
    with pytest.raises(RuntimeError, match="set_env"):
        unpickled.sample(10)
    loaded = SAC.load(tmp_path / "model", env=env)
    assert isinstance(loaded.replay_buffer, SB3Buffer)
    assert loaded.replay_buffer.n_transitions == 0
    loaded.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=truncate)
    assert loaded.replay_buffer.storage.is_running.any() != truncate
    assert loaded.replay_buffer.n_transitions == model.replay_buffer.n_transitions
    assert loaded.replay_buffer.env is env
    loaded.learn(60, reset_num_timesteps=False)
    with pytest.raises(ValueError, match="already initialized"):
        loaded.replay_buffer.set_env(env)


def test_rewards_are_computed_on_raw_goals_under_normalisation():
    """SB2 #794."""
    inner = make_vec_env("LineEnv-v0")
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
    finals = storage.next_achieved_goals[storage.positions(storage.episode_last_id[: len(ends)]), 0]
    assert np.allclose(finals, ends, atol=1e-5), "final observations are stored raw"
    raw, normalised = model.replay_buffer.sample(300), model.replay_buffer.sample(300, env=env)
    gap = (raw.next_observations["achieved_goal"] - raw.next_observations["desired_goal"]).abs()
    assert ((raw.rewards == 0) == (gap < 0.3)).all()
    assert float(raw.observations["achieved_goal"].std()) > 1.5
    assert float(normalised.observations["achieved_goal"].std()) == pytest.approx(1, abs=0.2)
    assert set(np.unique(normalised.rewards)) == {-1.0, 0.0}


def filled_twice(strategy, steps, lengths=(6, 6), **options):
    """Our buffer with SB3's done and reward, and SB3's own, after the same steps of two environments."""
    options |= {"goal_selection_strategy": strategy, "n_sampled_goal": 4}
    env = SimpleNamespace(env_method=lambda name, *goals, indices: [sparse(*goals)])
    buffers = (
        make_buffer(800, 2, relabel_done="keep", keep_goal_independent_reward=False, **options),
        SB3Buffer(800, SPACE, ACTION, env, device="cpu", n_envs=2, **options),
    )
    for buffer in buffers:
        player = Player(buffer, 2)
        for step in range(1, steps + 1):
            player.play([step % length == 0 for length in lengths])
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
    assert ks_2samp(ours[:4000], theirs[:4000]).pvalue > 1e-4, "original transitions"
    assert ks_2samp(ours[4000:], theirs[4000:]).pvalue > 1e-4, "virtual transitions"
    if buffers[0].n_transitions < 200:
        drawn, expected = (np.unique(digests[:4000].round(4)) for digests in (ours, theirs))
        np.testing.assert_allclose(drawn, expected, atol=2e-4, err_msg="the same original transitions can be drawn")


@pytest.mark.parametrize(("strategy", "handled"), [("future", True), ("final", False), ("episode", True)])
def test_sb3_relabelling_gives_the_same_distribution(strategy, handled):
    assert_same_distribution(filled_twice(strategy, steps=396, handle_timeout_termination=handled))


@pytest.mark.parametrize("handled", [True, False])
def test_truncated_episodes_give_the_same_distribution(handled):
    """The last episodes, 8 and 27 steps long, still run: a quarter of all transitions."""
    buffers = filled_twice("future", steps=70, lengths=(31, 43), handle_timeout_termination=handled)
    for buffer in buffers:
        buffer.truncate_last_trajectory()
    assert_same_distribution(buffers)


def test_samples_are_possible_from_the_first_step_on():
    """SB3's "Unable to sample before the end of the first episode" (rl-baselines3-zoo #433)."""
    model = make_model(SAC, make_vec_env(bits(12, continuous=True), 1), steps=0)
    model.learning_starts, model.train_freq = 1, model.train_freq._replace(frequency=1)
    model.learn(5)


def test_seeded_runs_repeat():
    """Without a seed of its own the buffer follows the one SB3 is given."""
    batches = []
    for _ in range(2):
        model = make_model(SAC, make_vec_env(bits(continuous=True), 2, seed=3), steps=60)
        batches.append(model.replay_buffer.sample(50))
    assert (batches[0].rewards == batches[1].rewards).all()
    assert (batches[0].actions == batches[1].actions).all()
