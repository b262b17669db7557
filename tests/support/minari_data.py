"""Datasets that plain Minari writes, without rlher."""

import sys
import types
import warnings
from pathlib import Path

import gymnasium as gym
import pytest
from torch.utils import _pytree


def collect_with_minari(monkeypatch: pytest.MonkeyPatch, root: Path, env: gym.Env, episodes: int, name: str) -> Path:
    """Record random episodes with Minari's ``DataCollector`` and return the dataset's folder.

    :param root: folder of datasets.
    """
    try:
        import jax.tree_util
    except ImportError:  # Minari needs nothing of jax but this function
        jax, tree_util = types.ModuleType("jax"), types.ModuleType("jax.tree_util")
        jax.tree_util, tree_util.tree_map = tree_util, _pytree.tree_map
        monkeypatch.setitem(sys.modules, "jax", jax)
        monkeypatch.setitem(sys.modules, "jax.tree_util", tree_util)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    from minari import DataCollector

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collector = DataCollector(env, record_infos=True)
        collector.action_space.seed(0)
        for seed in range(episodes):
            collector.reset(seed=seed)
            done = False
            while not done:
                _, _, terminated, truncated, _ = collector.step(collector.action_space.sample())
                done = terminated or truncated
        collector.create_dataset(dataset_id=name)
        collector.close()
    return root / name
