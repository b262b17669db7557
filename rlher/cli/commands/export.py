"""Write a run's agent as a plain Stable-Baselines3 model, with a script and a model card."""

from rlher.config.commands import ExportConfig


def run(config: ExportConfig) -> int:
    """Write the export folder and return the exit code."""
    from rlher.evaluation.export.exporter import export

    return export(config)
