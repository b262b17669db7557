"""What a training run's evaluations are worth: success at the end, area under the curve, steps to 90 %."""

from dataclasses import dataclass
from typing import Any

import numpy as np

LAST = 0.2
"""Share of a run's evaluations that count as its last."""
GOOD = 0.9

Row = dict[str, Any]


@dataclass(frozen=True)
class Score:
    """A run's evaluations, or the mean over several runs'.

    :param success: mean success rate of the last fifth of the evaluations.
    :param auc: mean success rate of all evaluations, the area under the success curve, in [0, 1].
    :param steps: steps of the first evaluation at or above 90 %; the whole run where none was.
    :param mean_reward: mean return of the last fifth.
    """

    success: float
    auc: float
    steps: float
    mean_reward: float

    @property
    def rank(self) -> tuple[float, float, float]:
        """Order of two scores, the greater the better: success, ties by steps to 90 %, then by return."""
        return self.success, -self.steps, self.mean_reward


def score(rows: list[Row]) -> Score:
    """Score the rows of one run's ``evaluations.csv``, in order."""
    last = rows[-last_of(len(rows)) :]
    good = (row["timesteps"] for row in rows if row["success_rate"] >= GOOD)
    return Score(
        success=_mean(last, "success_rate"),
        auc=_mean(rows, "success_rate"),
        steps=float(next(good, rows[-1]["timesteps"])),
        mean_reward=_mean(last, "mean_reward"),
    )


def last_of(evaluations: int) -> int:
    """Return how many of so many evaluations count as the last."""
    return max(round(LAST * evaluations), 1)


def mean(scores: list[Score]) -> Score:
    """Average the scores of a trial's seeds."""
    table = np.array([(each.success, each.auc, each.steps, each.mean_reward) for each in scores])
    return Score(*map(float, table.mean(axis=0)))


def value(objective: str, result: Score, total_timesteps: int, episodes: int) -> float | tuple[float, float]:
    """Return what Optuna maximises (of ``multi`` the second is minimised).

    Where success rates tie, the sampler should still learn from the steps to 90 %: they take off less than one of the
    ``episodes`` that the success rate was measured on, so they never put a lower success rate before a higher one.
    """
    if objective == "auc":
        return result.auc
    if objective == "multi":
        return result.success, result.steps
    return result.success - 0.5 / episodes * result.steps / total_timesteps


def _mean(rows: list[Row], column: str) -> float:
    return float(np.mean([row[column] for row in rows]))
