"""Trials that cost nothing, for workers in processes of their own."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from optuna.trial import Trial


@dataclass(frozen=True)
class Quadratic:
    """A trial that takes ``seconds`` and waits until ``together`` workers are at it.

    The one numbered ``stuck`` says who runs it and waits to be killed; the one numbered ``fails`` raises.
    """

    folder: Path
    seconds: float = 0.05
    stuck: int = -1
    fails: int = -1
    together: int = 1

    def __call__(self, trial: Trial) -> float:
        (self.folder / f"{os.getpid()}.pid").touch()
        while len(list(self.folder.glob("*.pid"))) < self.together:
            time.sleep(0.05)
        x = trial.suggest_float("x", -10, 10)
        if trial.number == self.stuck:
            (self.folder / "stuck").write_text(str(os.getpid()))
            time.sleep(600)
        if trial.number == self.fails:
            raise ZeroDivisionError("a bug of ours")
        time.sleep(self.seconds)
        trial.report(x, 0)
        for name in ("success", "auc", "steps", "mean_reward"):
            trial.set_user_attr(name, -x * x)
        return -x * x
