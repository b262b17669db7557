"""Many training runs: sweeps, and hyperparameter search with Optuna, both in worker processes."""
