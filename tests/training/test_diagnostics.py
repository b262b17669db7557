"""Diagnostics of training episodes in the log."""

import pandas as pd

from tests.conftest import TINY

FEW_UPDATES = ("eval.freq=400", "algo.train_freq=20", "algo.gradient_steps=1")
COLUMNS = [f"rollout/{name}" for name in ("object_moved", "success_at_reset", "action_saturation")]


def progress(rlher, algo: str, env: str, *words: str) -> pd.DataFrame:
    assert rlher("train", f"algo={algo}", f"env={env}", *TINY, *FEW_UPDATES, *words).code == 0
    return pd.read_csv(f"logs/{algo}/{env}_1/progress.csv")


def test_a_run_logs_them(rlher) -> None:
    shares = progress(rlher, "sac", "FetchReach-v4", "total_timesteps=300")[COLUMNS].dropna()
    assert len(shares)
    assert shares.stack().between(0, 1).all()
    assert (shares["rollout/object_moved"] == 1).all(), "a random hand leaves the success radius in every episode"


def test_every_row_has_them_with_more_environments_than_episodes_between_rows(rlher) -> None:
    words = ("env.kwargs.n_bits=4", "env.kwargs.continuous=true", "n_envs=8", "vec_env=dummy", "total_timesteps=400")
    table = progress(rlher, "sac", "BitFlipping-v0", *words).dropna(subset="rollout/ep_len_mean")
    assert len(table) > 3
    assert table[COLUMNS].notna().all(None)


def test_discrete_actions_do_not_saturate(rlher) -> None:
    table = progress(rlher, "dqn", "BitFlipping-v0", "env.kwargs.n_bits=4", "total_timesteps=300")
    assert "rollout/object_moved" in table
    assert "rollout/action_saturation" not in table
