"""GoalNormalize: one normaliser for both goals, unchanged rewards, exact terminal observations."""

import numpy as np
import pytest

from rlher.config.environment import EnvConfig, RelayConfig
from rlher.envs.normalize import GoalNormalize
from rlher.envs.vec import make_goal_envs

REACH = EnvConfig(id="FetchReach-v4", max_episode_steps=6, success_key="is_success")


@pytest.fixture(scope="module")
def rollout():
    envs = GoalNormalize(make_goal_envs(REACH), clip=0.5)
    envs.reset()
    steps = [envs.step(np.array([envs.action_space.sample()])) for _ in range(18)]
    return envs, steps


def test_both_goals_share_one_normaliser(rollout) -> None:
    envs, _ = rollout
    goal = np.array([[1.3, 0.7, 0.5]])
    normalized = envs.normalize_obs({"achieved_goal": goal, "desired_goal": goal})
    np.testing.assert_array_equal(normalized["achieved_goal"], normalized["desired_goal"])
    assert envs.obs_rms["achieved_goal"].count == pytest.approx(2 * envs.obs_rms["observation"].count, rel=1e-3)


def test_rewards_are_raw_and_observations_clipped(rollout) -> None:
    _, steps = rollout
    assert {float(step[1][0]) for step in steps} <= {0.0, -1.0}
    assert max(np.abs(step[0]["observation"]).max() for step in steps) <= 0.5


def test_the_raw_terminal_observation_is_not_clipped(rollout) -> None:
    envs, steps = rollout
    ends = [step[3][0] for step in steps if step[2][0]]
    assert len(ends) == 3
    for info in ends:
        raw = info["raw_terminal_observation"]
        lossy = envs.unnormalize_obs(info["terminal_observation"])
        assert np.abs(raw["observation"] - lossy["observation"]).max() > 0.01, "the test needs a clipped value"
        assert np.linalg.norm(raw["achieved_goal"] - [1.34, 0.75, 0.53]) < 0.3, "within reach of the gripper"


def test_the_buffer_stores_the_raw_terminal_observation() -> None:
    from rlher.algos.factory import build_model
    from rlher.config.algorithms import DDPGConfig
    from rlher.config.her import HerConfig

    envs = GoalNormalize(make_goal_envs(REACH), clip=0.5)
    ends: list[np.ndarray] = []
    step_wait = envs.step_wait

    def recording():
        result = step_wait()
        ends.extend(
            info["raw_terminal_observation"]["achieved_goal"]
            for info in result[3]
            if "raw_terminal_observation" in info
        )
        return result

    envs.step_wait = recording  # type: ignore[method-assign]
    algo = DDPGConfig(name="ddpg", learning_starts=100, gradient_steps=1, net_arch=[8])
    model = build_model(algo, HerConfig(goal_selection_strategy="final", n_sampled_goal=10_000), REACH, envs, 0, "cpu")
    model.learn(12)
    goals = model.replay_buffer.sample(200).observations["desired_goal"].numpy()
    distance = np.linalg.norm(goals[:, None] - np.asarray(ends)[None], axis=-1).min(axis=1)
    assert np.median(distance) < 1e-6, "goals of `final` are the raw last positions"


def test_statistics_survive_saving_and_loading(rollout) -> None:
    envs, _ = rollout
    other = GoalNormalize(make_goal_envs(REACH), clip=0.5)
    other.load_state(envs.state())
    observation = {"observation": np.ones((2, 10)), "achieved_goal": np.ones((2, 3)), "desired_goal": np.zeros((2, 3))}
    for name, value in envs.normalize_obs(observation).items():
        np.testing.assert_array_equal(value, other.normalize_obs(observation)[name])
    broken = envs.state() | {"observation/mean": np.zeros(3)}
    with pytest.raises(ValueError, match="shape"):
        other.load_state(broken)


def test_slots_share_the_scale_of_achieved_goals_and_unused_ones_stay_zero() -> None:
    relay = RelayConfig(enabled=True, hand=[0, 3], object=[3, 6], origin=[1.34, 0.75, 0.5])
    config = EnvConfig(
        id="FetchPush-v4", max_episode_steps=6, relay=relay, success_reward=0.0, reward_range=[-1.0, 0.0]
    )
    envs = GoalNormalize(make_goal_envs(config), goal_parts=2)
    envs.reset()
    seen = [envs.get_original_obs()["achieved_goal"]]
    for _ in range(10):
        envs.step(np.array([envs.action_space.sample()]))
        seen.append(envs.get_original_obs()["achieved_goal"])
    achieved = np.concatenate(seen).reshape(-1, 3)
    statistics = envs.obs_rms["desired_goal"]
    np.testing.assert_allclose(statistics.var, np.tile((achieved**2).mean(axis=0), 2), rtol=0.01)
    assert statistics.count == pytest.approx(len(achieved), rel=1e-3)
    assert envs.obs_rms["observation"].count == pytest.approx(11, rel=1e-3)
    shown = envs.get_original_obs()
    goal = np.array([[0.1, -0.2, 0.3, 0, 0, 0]])
    normalized = envs.normalize_obs({**shown, "desired_goal": goal})["desired_goal"]
    assert ((normalized == 0) == (goal == 0)).all()
