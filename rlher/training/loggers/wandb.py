"""Weights & Biases. With ``WANDB_MODE=offline`` everything stays in the run folder until ``wandb sync``."""

import os
from dataclasses import asdict

import wandb

from rlher.runs.run_folder import Run


class WandbService:
    """A run of Weights & Biases; ``WANDB_PROJECT`` names its project."""

    def __init__(self, run: Run) -> None:
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "rlher"),
            name=f"{run.config.algo.name}/{run.folder.name}",
            dir=str(run.folder),
            config=asdict(run.config),
            settings=wandb.Settings(console="off", quiet=True),
        )
        # Not W&B's own step: it drops what is logged for an earlier step, such as an evaluation that has just ended.
        self._run.define_metric("*", step_metric="timesteps")

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Log numbers of one step."""
        self._run.log({**numbers, "timesteps": step})

    def finish(self, result: dict[str, float], status: str) -> None:
        """Write the result to the run's summary and end the run."""
        self._run.summary.update({**result, "status": status})
        self._run.finish(exit_code=0 if status in ("finished", "stopped") else 1)
