"""Hyperparameter search with Optuna: search spaces, trials, storage and the comparison with the baseline."""

from rlher.jobs import sweep

SEARCH_MODULES = (
    *sweep.SWEEP_MODULES,
    "rlher.tuning.trial_runner",
    "alembic.command",
    "optuna.storages._rdb.models",
)
"""What the fork server imports for the workers of a search. With the last two, each opens its database in 0.1 instead
of 0.5 seconds."""
