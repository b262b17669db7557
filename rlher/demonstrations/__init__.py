"""Demonstrations: datasets in Minari's format.

`rlher collect` (:mod:`rlher.playing.collect`) writes them. The replay buffer stores them
(:mod:`rlher.her.trajectories`), training learns from them (:mod:`rlher.training.learning_from_demonstrations`), and
their config keys are in :mod:`rlher.config.her`.
"""
