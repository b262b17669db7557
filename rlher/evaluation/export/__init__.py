"""A run's agent as others want it: a plain Stable-Baselines3 model, a script that plays it, a model card."""
