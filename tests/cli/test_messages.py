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
    (("train", "algo.learning_rate=-1"), "algo.learning_rate=-1"),
    (("train", "algo.learning_rate=nan"), "algo.learning_rate=nan"),
    (("train", "algo.gamma=1.5"), "algo.gamma=1.5"),
    (("train", "her.n_sampled_goal=-1"), "her.n_sampled_goal=-1"),
    (("train", "her.goal_selection_strategy=fianl"), "'final'"),
    (("train", "her.relabel_done=maybe"), "her.relabel_done='maybe'"),
    (("train", "n_envs=0"), "n_envs=0"),
    (("train", f"n_envs={10**9}"), f"n_envs={10**9}"),
    (("train", f"seed={10**30}"), f"seed={10**30}"),
    (("train", f"eval.seed={10**30}"), f"eval.seed={10**30}"),
    (("train", f"eval.episodes={10**30}"), f"eval.episodes={10**30}"),
    (("optimize", f"rerun_seeds={10**9}"), f"rerun_seeds={10**9}"),
    (("evaluate", f"seed={2**32}"), f"seed={2**32}"),
    (("check", "env=BitFlipping-v0", f"seed={10**30}"), f"seed={10**30}"),
    (("train", "total_timesteps=0"), "total_timesteps=0"),
    (("train", "seed=1,2"), "-m"),
    (("train", "total_timesteps"), "'total_timesteps'"),
    (("train", "--sed", "3"), "did you mean '--seed'"),
    (("train", "--seed"), "--seed"),
    (("train", "recipe=nowhere.yaml"), "nowhere.yaml"),
    (("train", "recipe=tqc-parkin-v0"), "'tqc-parking-v0'"),
    (("train", "--recipe", "nowhere"), "'nowhere'"),
    (("train", "env.modules=mine"), "env.modules=[mine]"),
    (("train", "seed=abc"), "seed=abc"),
    (("check", "env.wrappers=[mine:Slow: {factor: 1}]"), "env.wrappers=[{module:Class: {argument: value}}]"),
    (("train", "callbacks=mine:Slow: {factor: 1}"), "callbacks=[module:Class]"),
    (("train", "dry_run=perhaps"), "dry_run=perhaps"),
    (("train", "seed"), "seed=..."),
    (("list", "foo"), "what='foo'"),
    (("train", "init_from=nowhere"), "nowhere"),
    (("train", "algo.target_q_bounds=7"), "algo.target_q_bounds"),
    (("train", "algo.target_q_bounds=[3,1]"), "algo.target_q_bounds"),
    (("train", "algo=sac", "algo.ent_coef=much"), "ent_coef"),
    (("train", "algo.kwargs.frobnicate=1"), "frobnicate"),
    (("train", "algo=sac", "+algo.kwargs.policy_kwargs={net_arch: {pi: [1]}}"), "sac"),
    (("train", "+algo.kwargs.buffer_size=1_000_000_000_000"), "tqc"),
    (("train", "algo=dqn", "env=parking-v0"), "sac, td3, ddpg, tqc, crossq"),
    (("train", "algo=sac", "env=BitFlipping-v0"), "dqn, qrdqn"),
    (("train", "device=gpu9", "env=BitFlipping-v0", "algo=dqn"), "gpu9"),
    (("train", "algo=sac", "env=BitFlipping-v0", "env.continuous=true", "algo.ent_coef=-1"), "ent_coef"),
    (("train", "algo=sac", "env=BitFlipping-v0", "env.continuous=true", "algo.ent_coef=nan"), "ent_coef"),
    (("train", "algo.net_arch=[0]"), "algo.net_arch"),
    (("train", "algo.net_arch=[8,[8]]"), "algo.net_arch"),
    (("train", "env.kwargs.render_mode=human"), "env.kwargs.render_mode"),
    (("check", "env=BitFlipping-v0", "env.kwargs={render_mode: human}"), "env.kwargs.render_mode"),
    (("check", "env=PandaReach-v3", "env.kwargs={renderer: OpenGL}"), "env.kwargs.renderer"),
    (("train", "total_timesteps=99999999999999999999999"), "total_timesteps"),
    (("train", "normalize.clip=0"), "normalize.clip"),
    (("train", "algo.target_q_bounds=[.nan,0]"), "algo.target_q_bounds"),
    (("train", "env.reward_range=[0]"), "reward_range"),
    (("check", "env.reward_range=[0]"), "reward_range"),
    (("train", "env.camera.lookat=[1,2]"), "lookat"),
    (("train", "algo.kwargs.n_steps=3"), "her.n_steps"),
    (("train", "+preset=0"), "invalid configuration"),
    (("train", "algo.net_arch.a.b=3"), "invalid configuration"),
    (("train", "device=cuda"), "device=cuda"),
    (("train", "device=cpu:3"), "device=cpu:3"),
    (("train", "device=meta"), "device=meta"),
    (("train", "threads=3000000000"), "threads=3000000000"),
    (("train", "algo=crossq", "algo.batch_size=1"), "algo.batch_size=1"),
    (
        ("train", "algo=dqn", "env=BitFlipping-v0", "recipe=tqc-parking-v0"),
        "algo=dqn, which has no key 'algo.ent_coef'",
    ),
    (("optimize", "algo=dqn", "env=BitFlipping-v0", "recipe=tqc-parking-v0"), "recipe tqc-parking-v0"),
    (("train", "+algo.lr=5"), "'algo.learning_rate'"),
    (("train", "+foo=1"), "'foo'"),
    (("train", "algo=null"), "algo=null"),
    (("train", "=3"), "'=3'"),
    (("train", "-m", "seed=0,1", "--cfg", "job"), "--cfg"),
    (("train", "--no-seed", "3"), "--no-seed"),
    (("evaluate", "nowhere"), "nowhere"),
    (("enjoy",), "logs/"),
    (("enjoy", "--video", "film.avi"), ".mp4"),
    (("enjoy", "--exp-id", "3"), "coming_from"),
    (("train", "-P"), "coming_from"),
    (("optimize", "--recipe", "nowhere.yaml"), "nowhere.yaml"),
]


@pytest.mark.parametrize(("words", "named"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_mistake_has_message_and_exit_code_2(rlher, tmp_path: Path, words: tuple[str, ...], named: str) -> None:
    done = rlher(*words)
    assert done.code == 2
    assert named in done.err
    assert done.err.startswith("rlher: ")
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 2
    assert not list(tmp_path.rglob("config.yaml")), "a run folder was created"


def test_a_lack_of_memory_has_a_message(rlher, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhaust(*_: object) -> None:
        np.empty(2**60, dtype=np.uint8)

    monkeypatch.setattr(hydra_app, "run", exhaust)
    done = rlher("check", "env=BitFlipping-v0")
    assert done.code == 2
    assert "Unable to allocate" in done.err
    assert "Traceback" not in done.err
