"""Defaults that depend on other values of a config."""

from rlher.config.algorithms import SACConfig
from rlher.config.environment import EnvConfig
from rlher.config.training import TrainConfig
from rlher.training.defaults import resolve_defaults


def test_open_values_are_resolved() -> None:
    config = TrainConfig(
        algo=SACConfig(name="sac"), env=EnvConfig(max_episode_steps=500), n_envs=3, total_timesteps=20_000
    )
    resolved, notes = resolve_defaults(config)
    assert resolved.algo.learning_starts == 1500, "one episode per environment"
    assert resolved.algo.gradient_steps == 3
    assert resolved.eval.freq == 1000
    assert resolved.engine.compile in ("on", "off")
    assert resolved.threads
    for value in ("learning_starts 1500", "gradient_steps 3"):
        assert any(note.startswith(value) for note in notes)
    assert len(notes) == 5, "on compilation, threads and evaluations, too"


def test_given_values_are_kept() -> None:
    config = TrainConfig(
        algo=SACConfig(learning_starts=4000, gradient_steps=1), env=EnvConfig(max_episode_steps=500), threads=1
    )
    resolved, _ = resolve_defaults(config)
    assert (resolved.algo.learning_starts, resolved.algo.gradient_steps, resolved.threads) == (4000, 1, 1)
