"""Export a run's agent: a plain Stable-Baselines3 model, a script that plays it, and a model card."""
