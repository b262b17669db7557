"""Demonstrations of bit flipping, with discrete or continuous actions."""

from pathlib import Path

import numpy as np
from minari.data_collector import EpisodeBuffer

from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.her.datasets import write_dataset


def write_bit_demonstrations(folder: Path, n_bits: int = 5, continuous: bool = True, episodes: int = 8, **own) -> Path:
    """Write episodes that flip the first wrong bit until all are right, and return the dataset's folder.

    :param own: further entries of what rlher says about the dataset.
    """
    env = BitFlippingEnv(n_bits=n_bits, continuous=continuous)
    recorded = [_play(env, seed) for seed in range(episodes)]
    write_dataset(folder, recorded, env, n_bits, {"rlher": {"env": "BitFlipping-v0", **own}})
    return folder


def _play(env: BitFlippingEnv, seed: int) -> EpisodeBuffer:
    observation, _ = env.reset(seed=seed)
    observations, actions, rewards, terminated = [observation], [], [], False
    while not terminated:
        bit = int(np.argmax(observation["achieved_goal"] != observation["desired_goal"]))
        actions.append(np.where(np.arange(env.n_bits) == bit, 1.0, -1.0) if env.continuous else bit)
        observation, reward, terminated, _, _ = env.step(actions[-1])
        observations.append(observation)
        rewards.append(reward)
    by_key = {key: np.stack([each[key] for each in observations]) for key in observation}
    ends = np.arange(len(actions)) == len(actions) - 1
    success = {"is_success": np.array([False, *(reward == 0 for reward in rewards)])}
    return EpisodeBuffer(None, seed, None, by_key, np.stack(actions), np.array(rewards), ends, ends & False, success)
