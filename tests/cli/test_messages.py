"""Mistakes of the user: exit code 2 and one message that names the key, the file or the nearest valid name."""

from pathlib import Path

import numpy as np
import pytest

from rlher.cli import hydra_app

MISTAKES = [
    # words, what the message must name
    (("trian",), "'train'"),
    (("train", "algo=tqcc"), "'tqc'"),
    (("train", "env=parkin-v0"), "parking-v0"),
    (("train", "her=fianl"), "'final'"),
    (("train", "algo.lr=3"), "'algo.learning_rate'"),
    (("train", "n_sampled_goal=3"), "'her.n_sampled_goal'"),
    (("train", "algo=td3", "algo.ent_coef=1"), "'algo.ent_coef'"),
    (("train", "algo.learning_rate=abc"), "algo.learning_rate=abc"),
    (("train", "algo.gamma=1.5"), "algo.gamma=1.5"),
    (("train", f"n_envs={10**9}"), f"n_envs={10**9}"),
    (("train", "seed=1,2"), "-m"),
    (("train", "total_timesteps"), "'total_timesteps'"),
    (("train", "--sed", "3"), "did you mean '--seed'"),
    (("train", "--seed"), "--seed"),
    (("train", "recipe=nowhere.yaml"), "nowhere.yaml"),
    (("train", "env.modules=mine"), "env.modules=[mine]"),
    (("check", "env.wrappers=[mine:Slow: {factor: 1}]"), "env.wrappers=[{module:Class: {argument: value}}]"),
    (("list", "foo"), "what='foo'"),
    (("train", "init_from=nowhere"), "nowhere"),
    (("train", "algo.target_q_bounds=7"), "algo.target_q_bounds"),
    (("train", "algo.kwargs.frobnicate=1"), "frobnicate"),
    (("train", "+algo.kwargs.buffer_size=1_000_000_000_000"), "tqc"),
    (("train", "algo=dqn", "env=parking-v0"), "sac, td3, ddpg, tqc, crossq"),
    (("train", "algo=sac", "env=BitFlipping-v0"), "dqn, qrdqn"),
    (("train", "device=gpu9", "env=BitFlipping-v0", "algo=dqn"), "gpu9"),
    (("train", "algo.net_arch=[0]"), "algo.net_arch"),
    (("train", "env.kwargs.render_mode=human"), "env.kwargs.render_mode"),
    (("train", "env.reward_range=[0]"), "reward_range"),
    (("train", "env.camera.lookat=[1,2]"), "lookat"),
    (("train", "algo.kwargs.n_steps=3"), "her.n_steps"),
    (("train", "algo.net_arch.a.b=3"), "invalid configuration"),
    (("train", "device=cuda"), "device=cuda"),
    (("train", "algo=crossq", "algo.batch_size=1"), "algo.batch_size=1"),
    (
        ("train", "algo=dqn", "env=BitFlipping-v0", "recipe=tqc-parking-v0"),
        "algo=dqn, which has no key 'algo.ent_coef'",
    ),
    (("optimize", "algo=dqn", "env=BitFlipping-v0", "recipe=tqc-parking-v0"), "recipe tqc-parking-v0"),
    (("train", "+algo.lr=5"), "'algo.learning_rate'"),
    (("train", "algo=null"), "algo=null"),
    (("train", "-m", "seed=0,1", "--cfg", "job"), "--cfg"),
    (("evaluate", "nowhere"), "nowhere"),
    (("enjoy",), "logs/"),
    (("enjoy", "--video", "film.avi"), ".mp4"),
    (("enjoy", "--exp-id", "3"), "coming_from"),
]


@pytest.mark.parametrize(("words", "named"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_mistake_has_message_and_exit_code_2(rlher, tmp_path: Path, words: tuple[str, ...], named: str) -> None:
    done = rlher(*words)
    assert done.code == 2
    assert named in done.err
    assert done.err.startswith("rlher: ")
    assert "Traceback" not in done.err
    assert not list(tmp_path.rglob("config.yaml")), "a run folder was created"


def test_a_lack_of_memory_has_a_message(rlher, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhaust(*_: object) -> None:
        np.empty(2**60, dtype=np.uint8)

    monkeypatch.setattr(hydra_app, "run", exhaust)
    done = rlher("check", "env=BitFlipping-v0")
    assert done.code == 2
    assert "Unable to allocate" in done.err
    assert "Traceback" not in done.err
