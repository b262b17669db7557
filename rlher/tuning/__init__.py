"""Hyperparameter search with Optuna: search spaces, trials, storage and the comparison with the baseline."""

TRIAL_MODULES = ("rlher.tuning.trial_jobs", "sb3_contrib", "scipy.stats")
"""What the fork server imports, so that the processes of trials start at once."""
