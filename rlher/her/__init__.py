"""Hindsight experience replay, usable with plain Stable-Baselines3: no Hydra, no command line, no run folder.

Its public names are those of :mod:`rlher`, such as ``rlher.HerReplayBuffer``. This file imports nothing, so that the
command line can read the names of strategies without waiting for torch.
"""
