"""The training loop: order of steps and updates, with and without ``engine.overlap``."""

from functools import partial

import pytest
from stable_baselines3.common.vec_env import SubprocVecEnv

from rlher.envs.bit_flipping import BitFlippingEnv
from tests.support.models import ours


def recorded_run(overlap: bool, **arguments) -> tuple:
    """Train 40 steps; return the model, what happened in which order, and the updates before each choice of actions."""
    model = ours("td3", overlap=overlap, learning_starts=20, **arguments)
    events: list = []
    model._n_updates = 0
    send, wait = model.env.step_async, model.env.step_wait
    update, sample_action, acting = model.train, model._sample_action, []
    model.env.step_async = lambda actions: (events.append("send"), send(actions))
    model.env.step_wait = lambda: (events.append("wait"), wait())[1]
    model.train = lambda **kwargs: (events.append("update"), update(**kwargs))
    model._sample_action = lambda *args: (acting.append(model._n_updates), sample_action(*args))[1]
    model.learn(40)
    return model, events, acting


def test_updates_run_between_sending_actions_and_waiting_for_their_results() -> None:
    model, events, acting = recorded_run(overlap=True)
    assert events[:42] == ["send", "wait"] * 21
    assert events[42:] == ["send", "update", "wait"] * 19 + ["update"], "nothing follows the last step"
    assert acting[21:] == list(range(19)), "each action is that of the policy before the update"
    assert model._n_updates == 20
    assert model.gradient_steps_due == 0


def test_without_it_updates_run_between_steps() -> None:
    model, events, acting = recorded_run(overlap=False)
    assert events[40:] == ["send", "wait", "update"] * 20
    assert acting[21:] == list(range(1, 20))
    assert model._n_updates == 20


def test_a_saved_model_has_no_gradient_steps_due(tmp_path) -> None:
    """They would be done at the first step of a run that starts from it, with an empty replay buffer."""
    model = ours("td3", overlap=True, learning_starts=20)
    model.gradient_steps_due = 1
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model", model.env)
    assert loaded.gradient_steps_due == 0


def test_rewards_of_environments_in_processes_are_refused() -> None:
    """A message to a process in the middle of a step would be answered with the result of the step."""
    model = ours("td3", overlap=True, learning_starts=20)
    model.set_env(SubprocVecEnv([partial(BitFlippingEnv, n_bits=5, continuous=True)]))
    model.replay_buffer.env = model.env
    with pytest.raises(ValueError, match="compute_reward must run in this process"):
        model.learn(40)
    model.replay_buffer.compute_reward = BitFlippingEnv(n_bits=5, continuous=True).compute_reward
    model.learn(40)
    model.env.close()
