"""Stable-Baselines3 callbacks of a training run."""
