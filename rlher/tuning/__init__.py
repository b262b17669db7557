"""Hyperparameter search with Optuna: search spaces, trials, storage and the comparison with the baseline."""
