"""Find run folders and read their configuration, evaluations and results.

A run is any folder with a ``config.yaml`` and an ``evaluations.csv``. It need not be finished.
Folders that cannot be read are skipped with a message.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rlher.config.training import EvalConfig
from rlher.core.console import escape_control, warn
from rlher.core.errors import UserError, as_read_error, first_line
from rlher.core.nested import to_dotted_keys
from rlher.core.reading import finite_float, read_table
from rlher.evaluation.evaluations_csv import EVALUATION_COLUMNS, EVALUATIONS_FILE
from rlher.run.result import Status
from rlher.run.run_folder import (
    CONFIG_FILE,
    TRAINING_LOG_FILE,
    read_result,
    read_unvalidated_config,
)

BENCHMARK = Path(__file__).resolve().parents[2] / "logs" / "benchmark"
"""Folder of benchmark runs in a checkout of rlher. These are not the user's own runs."""

MAX_VALUE = 1e15
"""Limit of numbers in tables. Larger ones, which cannot be drawn, count as missing."""


REQUIRED_COLUMNS = ["timesteps", "success_rate"]
"""Columns of ``evaluations.csv`` without which a run is skipped."""

LABEL_KEYS = ("algo", "env", "her")
"""Keys of a loaded config for labels; ``her`` is the strategy, or ``off`` without hindsight."""


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """A run as far as it has been trained.

    :param values: ``config.yaml`` with dotted keys, and :data:`LABEL_KEYS`. Missing keys have their defaults.
    :param evaluations: ``evaluations.csv``, sorted by ``timesteps``.
    :param result: ``result.json``, empty while the run is trained.
    """

    folder: Path
    values: dict[str, Any]
    evaluations: pd.DataFrame
    result: dict[str, Any]

    @cached_property
    def log(self) -> pd.DataFrame:
        """The training log ``progress.csv`` by ``timesteps``; empty if there is none.

        The log has each column with and without its section, as ``rollout/object_moved`` and ``object_moved``.
        ``wall_seconds`` and ``updates`` are interpolated between evaluations, and NaN after the last evaluation.
        """
        try:
            rows = _numbers(read_table(self.folder / TRAINING_LOG_FILE)).groupby("time/total_timesteps").last()
        except (OSError, ValueError, OverflowError, KeyError):  # the log is missing or damaged
            return pd.DataFrame()
        log = rows.reset_index(names="timesteps")  # each row has the last number of each column
        log = log.assign(**{without_section(name): log[name] for name in map(str, log)})
        for name in ("wall_seconds", "updates"):
            if name in self.evaluations:
                known = self.evaluations.dropna(subset=name)
                log[name] = np.interp(log["timesteps"], [0, *known["timesteps"]], [0, *known[name]], right=np.nan)
        return log

    def points(self, x: str, y: str) -> pd.Series:
        """Return column y by column x, sorted, where both have numbers. Without one of the columns, return no points.

        :param x: ``timesteps``, ``wall_seconds`` or ``updates``. Of rows with the same value, the last row counts.
        :param y: column of the evaluations, or of the log with or without its section, such as ``object_moved``.
        """
        table = self.evaluations if y in self.evaluations else self.log
        if not {x, y} <= set(table):
            return pd.Series(dtype=float)
        return table.dropna(subset=[x, y]).groupby(x)[y].last()

    def final(self, column: str) -> float:
        """Return a column of the final evaluation, else its last value during training, else NaN."""
        final = finite_float(self.result.get(column))
        if final is not None:
            return final
        return float(self.evaluations.reindex(columns=[column])[column].ffill().iloc[-1])

    def first_reaching(self, level: float, column: str = "timesteps") -> float:
        """Return a column of the first evaluation with at least this success rate, or infinity if there is none.

        :param level: success rate in [0, 1].
        """
        rows = self.evaluations.loc[self.evaluations["success_rate"] >= level]
        return float(rows[column].iloc[0]) if len(rows) and column in rows else np.inf

    @property
    def timesteps(self) -> int:
        """Number of steps trained. While the run lasts, the steps until its last evaluation."""
        return int(max(self.evaluations["timesteps"].max(), finite_float(self.result.get("timesteps")) or 0))

    @property
    def final_episodes(self) -> int:
        """Number of episodes behind :meth:`final`, at least one."""
        return max(int(finite_float(self.result.get("episodes")) or self.episodes), 1)

    @property
    def episodes(self) -> int:
        """Number of episodes of one evaluation, at least one."""
        return max(int(finite_float(self.values["eval.episodes"]) or EvalConfig.episodes), 1)


def read_runs(path: str) -> list[RecordedRun]:
    """Read all runs in and below one folder. The list may be empty.

    :raises UserError: the folder does not exist.
    """
    runs = []
    folders = list(run_folders(Path(path)))
    for folder in folders:
        try:
            runs.append(read_run(folder))
            if runs[-1].result.get("status") == Status.FAILED:
                warn(f"{folder} failed after {runs[-1].timesteps:,} steps; its evaluations until then count")
        except (OSError, ValueError, UserError) as error:
            warn(f"skipped {folder}: {first_line(error)}")
    if not folders:
        warn(f"skipped {path}: it contains no run")
    return runs


def run_folders(path: Path) -> Iterator[Path]:
    """Yield the folders with a ``config.yaml`` in natural order (2 before 10).

    Skip folders named ``optuna`` below ``path``, and :data:`BENCHMARK`. They are read only if ``path`` names them.

    :raises UserError: ``path`` does not exist.
    """
    if not path.is_dir():
        raise UserError(f"the folder {path} does not exist; training writes its runs into logs.")
    for folder, subfolders, files in os.walk(path):
        names = [name for name in subfolders if name != "optuna" and Path(folder, name).resolve() != BENCHMARK]
        subfolders[:] = sorted(names, key=_natural_key)
        if CONFIG_FILE in files:
            subfolders.clear()
            yield Path(folder)


def _natural_key(name: str) -> list[str | int]:
    parts = re.split(r"([0-9]+)", name)  # text and numbers alternate, so that two lists can be compared
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]


def read_run(folder: Path) -> RecordedRun:
    """Read one run folder.

    :raises ValueError: the run has no evaluation yet, or a success rate is outside [0, 1].
    :raises OSError, UserError: a file cannot be read or is damaged.
    """
    config = _read_config(folder)
    result = read_result(folder)
    evaluations = _read_evaluations(folder, result)
    if not 0 <= (finite_float(result.get("success_rate")) or 0) <= 1:
        raise ValueError("result.json has a success rate outside [0, 1]")
    return RecordedRun(folder, config, evaluations, result)


def _read_config(folder: Path) -> dict[str, Any]:
    """Return ``config.yaml`` with dotted keys, defaults for missing keys, and :data:`LABEL_KEYS`."""
    config, other_values = read_unvalidated_config(folder)
    labels = {
        "algo": config.algo.label,
        "env": config.env.label,
        "her": config.her.goal_selection_strategy if config.her.n_sampled_goal else "off",
    }
    defaults = config.defaults()  # the defaults add empty mappings, such as her.goal_mix
    values = chain(*map(to_dotted_keys, (asdict(defaults), asdict(config), other_values, labels)))
    # Keys and values are escaped here, because a table, a figure or a notebook may show any of them.
    return {escape_control(key): escape_control(value) if isinstance(value, str) else value for key, value in values}


def _read_evaluations(folder: Path, result: dict[str, Any]) -> pd.DataFrame:
    """Return ``evaluations.csv`` with numeric columns, one row per ``timesteps``, sorted.

    A run that was shorter than ``eval.freq`` has no such file. Then the final evaluation in ``result`` is the only row.
    """
    path = folder / EVALUATIONS_FILE
    final = pd.DataFrame([result] if result.get("status") == Status.FINISHED else [], columns=[*EVALUATION_COLUMNS])
    with as_read_error(path):
        table = read_table(path) if path.is_file() else final
        if missing := [name for name in REQUIRED_COLUMNS if name not in table]:
            raise ValueError(f"it has no column {' and no '.join(missing)}")
        rows = _numbers(table).dropna(subset=REQUIRED_COLUMNS)
    if rows.empty:
        raise ValueError(f"{path.name} has no evaluation yet")
    if not rows["success_rate"].between(0, 1).all():
        raise ValueError(f"{path.name} has success rates outside [0, 1]")
    return rows.drop_duplicates("timesteps", keep="last").sort_values("timesteps")


def _numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with NaN in place of text, infinity and numbers that cannot be drawn."""
    numbers = table.apply(pd.to_numeric, errors="coerce")
    return numbers.where(numbers.abs() < MAX_VALUE)


def without_section(column: str) -> str:
    """Return a column of ``progress.csv`` without its section: ``object_moved`` for ``rollout/object_moved``."""
    return column.rpartition("/")[2]
