"""Scores of a training run's evaluations: final success rate, area under the success curve, steps to 90 %."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from optuna.trial import FrozenTrial

from rlher.core.reading import finite_float
from rlher.evaluation.evaluations_csv import EvaluationRows
from rlher.evaluation.metrics import TARGET_PERCENT

LAST_SHARE = 0.2
"""Share of a run's evaluations, the last ones, over which the final success rate is averaged."""


class Score(NamedTuple):
    """Score of one run, or the mean over several runs.

    :param success: mean success rate of the last fifth of the evaluations.
    :param auc: mean success rate of all evaluations, the area under the success curve, in [0, 1].
    :param steps: steps until the first evaluation at or above 90 %, or the steps of the whole run if there is none.
    :param mean_reward: mean return of the last fifth.
    :param share_at_target: share of the runs that reached 90 %.
    :param seconds: see :func:`saved_seconds`.
    """

    success: float
    auc: float
    steps: float
    mean_reward: float
    share_at_target: float
    seconds: float


SCORE_KEYS = Score._fields
"""User attributes of a completed trial."""


def score_run(rows: EvaluationRows, time_limit: float = 0.0) -> Score:
    """Return the score of the rows of a run's ``evaluations.csv``."""
    last = rows[-n_last_evaluations(len(rows)) :]
    reached = [row["timesteps"] for row in rows if row["success_rate"] >= TARGET_PERCENT / 100]
    return Score(
        success=_mean(last, "success_rate"),
        auc=_mean(rows, "success_rate"),
        steps=float(min(reached, default=rows[-1]["timesteps"])),
        mean_reward=_mean(last, "mean_reward"),
        share_at_target=float(bool(reached)),
        seconds=saved_seconds(rows, time_limit),
    )


def saved_seconds(rows: EvaluationRows, time_limit: float) -> float:
    """Return how many seconds before ``time_limit`` the run reached 90 %.

    The run reached 90 % at the second of the first two consecutive evaluations at or above 90 %. If the run did not
    reach 90 % in time, return ``-time_limit`` times the last failure rate.
    """
    for one, two in pairwise(rows):
        if min(one["success_rate"], two["success_rate"]) >= TARGET_PERCENT / 100 and two["wall_seconds"] <= time_limit:
            return float(time_limit - two["wall_seconds"])
    return float(time_limit * (rows[-1]["success_rate"] - 1))


def n_last_evaluations(evaluations: int) -> int:
    """Return the number of last evaluations over which the final success rate of a run is averaged."""
    return max(round(LAST_SHARE * evaluations), 1)


def mean_score(scores: list[Score]) -> Score:
    """Return the mean of each entry over a trial's seeds."""
    return Score(*np.mean(scores, axis=0).tolist())


def objective_value(objective: str, score: Score, total_timesteps: int, n_episodes: int) -> float:
    """Return a trial's value of ``objective=``.

    With ``success``, fewer steps to 90 % break ties between equal success rates. The tie break weighs less than one of
    the ``n_episodes`` behind the success rate.
    """
    tie_break = 0.5 / n_episodes * score.steps / total_timesteps if objective == "success" else 0.0
    return float(getattr(score, objective)) - tie_break


def has_score(trial: FrozenTrial) -> bool:
    """Return whether a trial's user attributes hold a whole score."""
    return all(finite_float(trial.user_attrs.get(name)) is not None for name in SCORE_KEYS)


def score_of(trial: FrozenTrial) -> Score:
    """Return the score stored in a trial for which :func:`has_score` holds."""
    return Score(**{name: trial.user_attrs[name] for name in SCORE_KEYS})


def format_steps(steps: float, share_at_target: float) -> str:
    """Return the steps to 90 % for a table: "–" if no run got there, "≥" before the mean if some did not."""
    if not share_at_target:
        return "–"
    return f"≥{steps:,.0f}" if share_at_target < 1 else f"{steps:,.0f}"


def _mean(rows: EvaluationRows, column: str) -> float:
    return float(np.mean([row[column] for row in rows]))
