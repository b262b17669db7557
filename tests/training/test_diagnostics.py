"""Diagnostics of training episodes in the log."""

import pandas as pd

from tests.conftest import TINY


def test_a_run_logs_them(rlher, tmp_path):
    outcome = rlher("train", "algo=sac", "env=FetchReach-v4", *TINY, "total_timesteps=300", "eval.freq=150")
    assert outcome.code == 0
    table = pd.read_csv(tmp_path / "logs/sac/FetchReach-v4_1/progress.csv")
    shares = table[[f"rollout/{name}" for name in ("object_moved", "success_at_reset", "action_saturation")]].dropna()
    assert len(shares)
    assert shares.stack().between(0, 1).all()
    assert (shares["rollout/object_moved"] == 1).all(), "a random hand leaves the success radius in every episode"


def test_every_row_has_them_with_more_environments_than_episodes_between_rows(rlher, tmp_path):
    words = ("env=BitFlipping-v0", "env.n_bits=4", "env.continuous=true", "n_envs=8", "vec_env=dummy")
    outcome = rlher("train", "algo=sac", *words, *TINY, "total_timesteps=400", "eval.freq=400")
    assert outcome.code == 0
    table = pd.read_csv(tmp_path / "logs/sac/BitFlipping-v0_1/progress.csv").dropna(subset="rollout/ep_len_mean")
    assert len(table) > 3
    assert (
        table[[f"rollout/{name}" for name in ("object_moved", "success_at_reset", "action_saturation")]]
        .notna()
        .all(None)
    )


def test_discrete_actions_do_not_saturate(rlher, tmp_path):
    outcome = rlher(
        "train", "algo=dqn", "env=BitFlipping-v0", "env.n_bits=4", *TINY, "total_timesteps=300", "eval.freq=150"
    )
    assert outcome.code == 0
    table = pd.read_csv(tmp_path / "logs/dqn/BitFlipping-v0_1/progress.csv")
    assert "rollout/object_moved" in table
    assert "rollout/action_saturation" not in table
