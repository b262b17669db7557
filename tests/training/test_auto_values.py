"""Defaults that depend on other values of a config."""

from dataclasses import replace

import pytest

from rlher.config.algorithms import SACConfig
from rlher.config.environment import EnvConfig
from rlher.config.training import EngineConfig, RunConfig
from rlher.training import auto_values
from rlher.training.auto_values import resolve_auto_values


def test_open_values_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_values, "available_cores", lambda: 2)
    config = RunConfig(
        algo=SACConfig(name="sac"),
        env=EnvConfig(max_episode_steps=3001, action_repeat=5),
        engine=EngineConfig(precision="float32"),
        n_envs=3,
        total_timesteps=20_000,
    )
    resolved = resolve_auto_values(config)
    assert resolved.algo.learning_starts == 3 * 601, "one episode per environment, with a step per repeated action"
    assert resolved.algo.gradient_steps == 3
    assert resolved.eval.freq == 1000
    assert resolved.engine.compile in ("on", "off")
    assert resolved.threads
    assert (resolved.engine.overlap, resolved.vec_env) == (True, "subproc")
    halved = resolve_auto_values(replace(config, algo=SACConfig(name="sac", learning_starts=20_000)))
    assert halved.algo.learning_starts == 10_000, "which leaves steps for updates"


def test_a_run_without_steps_may_be_made_longer() -> None:
    config = RunConfig(algo=SACConfig(name="sac"), env=EnvConfig(max_episode_steps=50), total_timesteps=0)
    resolved = resolve_auto_values(config)
    assert (resolved.algo.learning_starts, resolved.eval.freq) == (50, 5000)


SMALL = SACConfig(name="sac")
LARGE = SACConfig(name="sac", net_arch=[512, 512], batch_size=512)
LARGE_CRITIC = replace(LARGE, net_arch={"pi": [64], "qf": [512, 512]})


@pytest.mark.parametrize(
    ("algo", "cores", "keys", "expected"),
    [
        (LARGE, 2, {}, (2, "dummy")),
        (LARGE, 2, {"vec_env": "subproc"}, (1, "subproc")),
        (LARGE, 2, {"n_envs": 2}, (1, "subproc")),
        (LARGE, 8, {}, (4, "subproc")),
        (LARGE_CRITIC, 8, {}, (4, "subproc")),
        (LARGE, 4, {"n_envs": 2}, (2, "subproc")),
        (LARGE, 4, {"engine": EngineConfig(overlap=False)}, (4, "dummy")),
        (LARGE, 1, {}, (1, "dummy")),
        (SMALL, 8, {}, (1, "subproc")),
        (SMALL, 2, {}, (1, "subproc")),
        (SMALL, 1, {}, (1, "dummy")),
        (SMALL, 2, {"threads": 1, "n_envs": 2}, (1, "dummy")),
        (SMALL, 2, {"vec_env": "dummy"}, (1, "dummy")),
        (SMALL, 2, {"engine": EngineConfig(overlap=False)}, (1, "dummy")),
        (SACConfig(name="sac", net_arch=[]), 8, {}, (1, "subproc")),
    ],
)
def test_threads_follow_from_width_batch_and_cores(monkeypatch, algo, cores: int, keys: dict, expected) -> None:
    """On two cores, a single environment stays in the main process if updates are large enough for both cores."""
    monkeypatch.setattr(auto_values, "available_cores", lambda: cores)
    resolved = resolve_auto_values(RunConfig(algo=algo, **keys))
    assert (resolved.threads, resolved.vec_env) == expected
    assert resolved.engine.overlap == ("engine" not in keys)


@pytest.mark.parametrize(
    ("mode", "train_freq", "gradient_steps", "compiler", "expected"),
    [
        ("auto", 100, None, "g++", "on"),  # 20,000 updates
        ("auto", 800, 40, "g++", "off"),  # 1,000 updates
        ("on", 800, 40, "g++", "on"),
        ("on", 100, None, None, "off"),
        ("off", 100, None, "g++", "off"),
    ],
)
def test_compilation_depends_on_updates_and_compiler(
    monkeypatch, mode, train_freq, gradient_steps, compiler, expected
) -> None:
    monkeypatch.setattr(auto_values.shutil, "which", lambda program: compiler)
    algo = SACConfig("sac", learning_starts=0, train_freq=train_freq, gradient_steps=gradient_steps)
    config = RunConfig(
        algo=algo, env=EnvConfig(max_episode_steps=50), engine=EngineConfig(mode), total_timesteps=20_050, threads=1
    )
    assert resolve_auto_values(config).engine.compile == expected


@pytest.mark.parametrize(
    ("mode", "is_faster", "expected"),
    [("auto", True, "bf16"), ("auto", False, "float32"), ("bf16", False, "bf16"), ("float32", True, "float32")],
)
def test_a_given_precision_is_kept(monkeypatch, mode, is_faster, expected) -> None:
    monkeypatch.setattr(auto_values, "is_bf16_faster", lambda *arguments: is_faster)
    config = RunConfig(
        algo=SMALL, env=EnvConfig(max_episode_steps=50), engine=EngineConfig(precision=mode), device="cpu"
    )
    assert resolve_auto_values(config).engine.precision == expected
