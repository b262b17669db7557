"""The columns of a run that can be drawn: of its evaluations and of its training log."""

from dataclasses import dataclass

from rlher.evaluation.metrics import METRICS

STEPS_PER_SECOND = "steps_per_second"
"""Environment steps over seconds since the previous evaluation, both of ``evaluations.csv``."""


@dataclass(frozen=True)
class Column:
    """How a column is drawn.

    :param axis: axis label, with the unit.
    :param is_rate: whether it lies in [0, 1] and is shown in per cent.
    :param unit: what its numbers are divided by for an axis.
    """

    axis: str
    is_rate: bool = False
    unit: float = 1


TRAINING_COLUMNS = {
    "critic_loss": Column("critic loss"),
    "actor_loss": Column("actor loss"),
    "loss": Column("loss of the Q-network"),
    STEPS_PER_SECOND: Column("environment steps per second"),
    "object_moved": Column("training episodes in which the achieved goal moved", is_rate=True),
    "success_at_reset": Column("training episodes at their goal from the start", is_rate=True),
    "action_saturation": Column("action entries at their bounds", is_rate=True),
}
"""Columns that describe training. Every other column of ``progress.csv`` can be drawn too, labelled with its name."""

COLUMNS = {
    "timesteps": Column("environment steps"),
    "wall_seconds": Column("wall-clock time, min", unit=60),
    "updates": Column("gradient updates"),
    **{metric.name: Column(metric.axis, metric.is_rate) for metric in METRICS},
    **TRAINING_COLUMNS,
    "rollout/success_rate": Column("success rate of training episodes", is_rate=True),
}

REPORTED = ("mean_reward", *TRAINING_COLUMNS)
"""What the report draws beside the success rate."""


def short_name(column: str) -> str:
    """Return a column of ``progress.csv`` without its section: ``object_moved`` for ``rollout/object_moved``."""
    return column.rpartition("/")[2]


def describe(column: str) -> Column:
    """Return axis label and kind of a column; the label of an unknown one is its name."""
    return COLUMNS.get(column) or TRAINING_COLUMNS.get(short_name(column)) or Column(column)
