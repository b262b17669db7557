"""Hyperparameter search with Optuna: search spaces, shared studies, workers, and the comparison of the best trials."""

import warnings

from optuna.exceptions import ExperimentalWarning

# Heartbeats and the retry of stale trials have been marked experimental since 2021; every worker would print a warning.
warnings.filterwarnings("ignore", category=ExperimentalWarning)
