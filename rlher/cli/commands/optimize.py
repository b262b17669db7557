"""`rlher optimize`: search for better hyperparameters with Optuna."""

from rlher.tuning.search import optimize

__all__ = ["optimize"]
