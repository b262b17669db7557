"""Mistakes of the user: exit code 2 and one message that names the key, the file or the nearest valid name."""

from pathlib import Path

import pytest

MISTAKES = [
    # words, what the message must name
    (("trian",), "'train'"),
    (("train", "algo=tqcc"), "'tqc'"),
    (("train", "env=parkin-v0"), "parking-v0"),
    (("train", "her=fianl"), "'final'"),
    (("train", "algo.learn_rate=3"), "'algo.learning_rate'"),
    (("train", "n_sampled_goal=3"), "'her.n_sampled_goal'"),
    (("train", "algo=td3", "algo.ent_coef=1"), "'algo.ent_coef'"),
    (("train", "seed=1,2"), "-m"),
    (("train", "total_timesteps"), "'total_timesteps'"),
    (("train", "--sed", "3"), "did you mean '--seed'"),
    (("train", "--seed"), "--seed"),
    (("train", "recipe=nowhere.yaml"), "nowhere.yaml"),
    (("check", "env.wrappers=[mine:Slow: {factor: 1}]"), "env.wrappers"),
    (("list", "foo"), "what='foo'"),
    (("train", "init_from=nowhere"), "nowhere"),
    (("train", "algo.target_q_bounds=7"), "algo.target_q_bounds"),
    (("train", "algo.kwargs.frobnicate=1"), "frobnicate"),
    (("train", "+algo.kwargs.buffer_size=1_000_000_000_000"), "algo.buffer_size"),
    (("train", "algo=dqn", "env=parking-v0"), "sac, td3, ddpg, tqc"),
    (("train", "algo.net_arch=[8,[8]]"), "algo.net_arch"),
    (("train", "env.kwargs.render_mode=human"), "env.kwargs.render_mode"),
    (("train", "env.reward_range=[0]"), "reward_range"),
    (("train", "algo.kwargs.n_steps=3"), "her.n_steps"),
    (("train", "algo.kwargs.bc_weight=1"), "demos.bc_weight"),
    (("train", "algo.kwargs.weight_decay=1"), "algo.weight_decay"),
    (("train", "algo.kwargs.relay_probability=1"), "algo.kwargs.relay_probability"),
    (("train", "algo.policy_kwargs.net_arch=[8]"), "algo.net_arch"),
    (("train", "algo.net_arch=[0]"), "algo.net_arch"),
    (("train", "algo=dqn", "env=BitFlipping-v0", "recipe=tqc-parking-v0"), "algo=dqn: there is no key"),
    (("train", "-m", "seed=0,1", "--cfg", "job"), "--cfg"),
    (("evaluate", "nowhere"), "nowhere"),
    (("train", "algo=tqc", "algo.top_quantiles_to_drop_per_net=50"), "algo.n_quantiles=10"),
    (("train", "her=mix", "her.goal_mix={fuure: 1.0}"), "fuure"),
    (("enjoy",), "logs/"),
]


@pytest.mark.parametrize(("words", "named"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_mistake_has_message_and_exit_code_2(rlher, tmp_path: Path, words: tuple[str, ...], named: str) -> None:
    done = rlher(*words)
    assert (done.code, named in done.err) == (2, True)
    assert not list(tmp_path.rglob("config.yaml")), "a run folder was created"
