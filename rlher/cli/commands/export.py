"""`rlher export`: write a run's agent as a plain Stable-Baselines3 model."""

from rlher.evaluation.export.exporter import export

__all__ = ["export"]
