"""Learning curves of many runs: found, read as far as they go, and put into groups that may be averaged.

A run here is any folder with a ``config.yaml`` and an ``evaluations.csv``, finished or not, of this version or an older
one; what cannot be read is passed over with a sentence.
"""

import io
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rlher.config.algorithms import ALGORITHMS, OffPolicyConfig
from rlher.config.training import EvalConfig, TrainConfig
from rlher.core.errors import UserError, did_you_mean, first_line
from rlher.core.files import links_outside, read_json, read_text, read_yaml, require_regular_file
from rlher.core.nested import finite_float, flatten

SHORT = {"algo": "algo.name", "env": "env.name", "her": "her.goal_selection_strategy"}
"""What people type for the keys they group by most."""

DEFAULT_BY = ("algo", "her")

ASIDE = (
    "seed",
    "logs",
    "device",
    "threads",
    "vec_env",
    "env.step_timeout",
    "env.max_restarts",
    "progress",
    "tensorboard",
    "logger",
    "record",
    "eval.keep_models",
    "json",
    "total_timesteps",
    "recipe",
    "engine.compile",
)
"""Keys that make no other experiment of a run: those of its place and length. Those of evaluation are others."""

MOST_BYTES = 100_000_000
"""Of a table: a million evaluations."""

MOST_COLUMNS = 500
"""Of a table, and what pandas needs milliseconds for."""

MOST_STEPS = 1e15
"""Of a run. What is larger is none, and fills pages when it is printed."""


@dataclass(frozen=True)
class Curve:
    """A run as far as it has come.

    :param folder: where it is.
    :param config: its ``config.yaml``, keys dotted; a key that an older version had not yet is at its default.
    :param typed: what was typed, from ``command.txt``.
    :param rows: its ``evaluations.csv``, by ``timesteps``.
    :param result: its ``result.json``; empty while it runs.
    """

    folder: Path
    config: dict[str, Any]
    typed: str
    rows: pd.DataFrame
    result: dict[str, Any]

    @property
    def env(self) -> str:
        """Name of the environment."""
        return str(self.config.get("env.name") or self.config.get("env.id"))

    def value(self, key: str) -> Any:
        """Return what the run was trained with, by full or short key."""
        return self.env if key == "env" else self.config.get(SHORT.get(key, key))

    def final(self, column: str) -> float:
        """Return the final evaluation's number, or the last evaluation's where the run has no final one.

        NaN where neither has one.
        """
        found = finite_float(self.result.get(column))
        if found is not None:
            return found
        last = self.rows[column].dropna().tolist() if column in self.rows else []
        return float(last[-1]) if last else math.nan

    def steps_to(self, level: float) -> float:
        """Return the steps of the first evaluation at or above a success rate, infinity where there was none."""
        reached = self.rows.loc[self.rows["success_rate"] >= level, "timesteps"]
        return float(reached.iloc[0]) if len(reached) else math.inf

    @property
    def final_episodes(self) -> int:
        """Episodes that :meth:`final` is over, at least one."""
        found = finite_float(self.result.get("episodes")) or finite_float(self.config.get("eval.episodes"))
        return max(int(found or EvalConfig.episodes), 1)


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds only, or in what ``by`` was told to pool.

    :param env: their environment.
    :param label: what tells them from other groups.
    :param curves: at least one.
    """

    env: str
    label: str
    curves: list[Curve]


# ------------------------------------------------------------------------------------------------ finding


def read(places: Sequence[str], logs: str) -> tuple[list[Curve], list[str]]:
    """Read all runs in and below some folders.

    :param places: folders; none: ``logs``.
    :return: the runs, and a sentence about each that was passed over.
    :raises UserError: a folder does not exist, or there is no run with an evaluation in any.
    """
    curves: list[Curve] = []
    passed: list[str] = []
    for place in places or [logs]:
        found, notes = read_below(place, "" if places else " `rlher train` makes one.")
        curves += found
        passed += notes
    curves = list({curve.folder.resolve(): curve for curve in curves}.values())
    if not curves:
        why = f" ({'; '.join(passed)})" if passed else ""
        raise UserError(f"there is no run with an evaluation under {', '.join(places or [logs])}{why}.")
    return curves, passed


def read_below(place: str, hint: str = "") -> tuple[list[Curve], list[str]]:
    """Read all runs in and below one folder, perhaps none.

    :return: as :func:`read`.
    :raises UserError: the folder does not exist; with the hint.
    """
    if not Path(place).is_dir():
        raise UserError(f"there is no folder {place}.{hint}")
    curves, passed = [], []
    for folder in _run_folders(Path(place)):
        try:
            curves.append(_read_run(folder))
        except (OSError, ValueError, RecursionError) as error:
            passed.append(f"{folder}: {first_line(error)}")
    return curves, passed


def _run_folders(place: Path) -> Iterator[Path]:
    """Walk down to folders that hold a ``config.yaml``, in the order people count in: 2 before 10.

    A tuner's hundred trials are looked at only where somebody asks for them.
    """
    for folder, below, files in os.walk(place):
        below[:] = sorted((name for name in below if name != "optuna"), key=_natural)
        if "config.yaml" in files:
            below.clear()
            yield Path(folder)


def _natural(name: str) -> list[str | int]:
    parts = re.split(r"([0-9]+)", name)  # text and number in turn, so that lists of parts compare
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]


def read_table(path: Path, dtype: type | None = None) -> pd.DataFrame:
    """Read a table with a header, each cell as it is where ``dtype`` is ``str``.

    :raises OSError: there is none.
    :raises ValueError: it is damaged, too large, or not this folder's, and which, in a line.
    """
    require_regular_file(path, MOST_BYTES)
    if links_outside(path):
        raise ValueError("it is a link to another folder")
    with path.open(encoding="utf-8-sig", newline="") as lines:
        header = lines.readline()
        if (columns := header.count(",") + 1) > MOST_COLUMNS:
            raise ValueError(f"it has {columns:,} columns, more than {MOST_COLUMNS}")
        named = range(len(pd.read_csv(io.StringIO(header), nrows=0).columns))
        lines.seek(0)
        # Else pandas would take the first cells, not the last, of a longer row for those without a name.
        return pd.read_csv(lines, usecols=named, dtype=dtype, keep_default_na=dtype is None)


def _read_run(folder: Path) -> Curve:
    if links_outside(folder / "config.yaml"):
        raise ValueError("its config.yaml is a link to another folder")
    try:
        values = read_yaml(folder / "config.yaml")
    except ValueError as error:
        raise ValueError(f"its config.yaml is damaged: {error}") from error
    if not isinstance(values, dict) or not {"algo", "env", "her"} <= set(values):
        raise ValueError("its config.yaml is not one of rlher's")
    if values.get("dry_run"):
        raise ValueError("a dry run")
    if not (folder / "evaluations.csv").is_file():
        raise ValueError("not evaluated yet")
    try:
        rows = read_table(folder / "evaluations.csv").apply(pd.to_numeric, errors="coerce")
    except (ValueError, OverflowError) as error:
        raise ValueError(f"its evaluations.csv is empty or damaged: {first_line(error)}") from error
    if not {"timesteps", "success_rate"} <= set(rows):
        raise ValueError("its evaluations.csv has not the columns timesteps and success_rate")
    rows = rows.replace([np.inf, -np.inf], np.nan).dropna(subset="timesteps")
    if not rows["timesteps"].between(-MOST_STEPS, MOST_STEPS).all():
        raise ValueError("its evaluations.csv has numbers of steps that no run can have")
    rows = rows.drop_duplicates("timesteps", keep="last").sort_values("timesteps")
    if not rows["success_rate"].dropna().between(0, 1).all():
        raise ValueError("its evaluations.csv has success rates that are not from 0 to 1")
    if rows["success_rate"].isna().all():
        raise ValueError("not evaluated yet")
    result = read_json(folder / "result.json")
    if not 0 <= (finite_float(result.get("success_rate")) or 0) <= 1:
        raise ValueError("its result.json has a success rate that is not from 0 to 1")
    return Curve(folder, _read_keys(values), read_text(folder / "command.txt"), rows, result)


def _read_keys(values: dict[str, Any]) -> dict[str, Any]:
    given = dict(flatten(values))
    given.setdefault("engine.name", "sb3")  # older than the choice: that is what ran
    name = str(given.get("algo.name"))
    defaults = TrainConfig(algo=ALGORITHMS[name].config() if name in ALGORITHMS else OffPolicyConfig())
    return dict(flatten(asdict(defaults))) | given


# ----------------------------------------------------------------------------------------------- grouping


def group(curves: Sequence[Curve], by: Sequence[str] = ()) -> tuple[list[Group], list[str]]:
    """Put runs that may be averaged into one group.

    Without ``by`` groups are environment × algorithm × strategy, and split further by whatever else the runs were
    trained with, because an average over two learning rates is no average over seeds. With ``by`` they are environment
    × those keys, whatever else differs.

    :return: the groups, and a sentence about each run left out because it repeats another's config and seed, and, with
        ``by``, about what was pooled.
    :raises UserError: no run has a key of ``by``.
    """
    notes: list[str] = []
    for key in by:
        if all(curve.value(key) is None for curve in curves):
            known = {name for curve in curves for name in curve.config} | set(SHORT)
            raise UserError(f"no run has a key {key!r}{did_you_mean(key, known)}.")
    pools: dict[tuple[str, ...], list[Curve]] = defaultdict(list)
    for curve in without_repeats(curves, notes):
        pools[(curve.env, *(_word(key, curve) for key in by or DEFAULT_BY))].append(curve)
    groups = []
    for (env, *words), pool in pools.items():
        label, differing = ", ".join(words), _differing(pool)
        if by:
            notes += pooled(Group(env, label, pool))
        if by or not differing:
            groups.append(Group(env, label, pool))
        else:
            groups += [Group(env, f"{label}, {more}", part) for more, part in _split(pool, differing).items()]
    return groups, notes


def pooled(group: Group) -> list[str]:
    """Say in what the runs of a group differ beside their seeds: a sentence, or none."""
    differing = _differing(group.curves)
    return [f"{group.env}, {group.label}: pools runs that differ in {_listed(differing)}"] if differing else []


def without_repeats(curves: Sequence[Curve], notes: list[str]) -> list[Curve]:
    """Keep, of runs with one config and seed, the one that went furthest: a copy is not another sample.

    :param notes: to which a sentence is added about each that is left out.
    """
    kept: dict[str, Curve] = {}
    for curve in curves:
        same = repr([(key, value) for key, value in sorted(curve.config.items()) if key == "seed" or matters(key)])
        other = kept.setdefault(same, curve)
        if other is not curve:
            longer, shorter = sorted((curve, other), key=lambda each: -each.rows["timesteps"].max())
            kept[same] = longer
            notes.append(f"{shorter.folder}: left out, it repeats {longer.folder}, seed and all")
    return list(kept.values())


def matters(key: str) -> bool:
    """Tell whether another value of a key makes another experiment."""
    return key not in ASIDE and not key.startswith("eval.")


def _differing(curves: Sequence[Curve]) -> list[str]:
    keys = {key for curve in curves for key in curve.config if matters(key)}
    return sorted(key for key in keys if len({repr(curve.config.get(key)) for curve in curves}) > 1)


def _split(pool: Sequence[Curve], differing: Sequence[str]) -> dict[str, list[Curve]]:
    parts: dict[str, list[Curve]] = defaultdict(list)
    telling = _telling(pool, differing)
    for index, curve in enumerate(pool):
        parts[", ".join(f"{name}={values[index]}" for name, values in telling.items())].append(curve)
    return parts


def _telling(pool: Sequence[Curve], differing: Sequence[str]) -> dict[str, list[str]]:
    """Return what suffices to tell the runs apart, by name a value a run.

    What somebody typed comes before what followed from it: ``her=sb3`` before the two keys that it sets.
    """
    found = {key: [str(curve.config.get(key)) for curve in pool] for key in differing}
    typed = {key: values for key, values in found.items() if any(f"{key}=" in curve.typed for curve in pool)}
    groups = {key.partition(".")[0] for key in differing}
    chosen = {group: [_typed_group(group, curve.typed) for curve in pool] for group in sorted(groups - {"env"})}
    known = {_partition(values) for values in found.values()}
    chosen = {group: values for group, values in chosen.items() if _partition(values) in known}
    kept: dict[tuple[int, ...], tuple[str, list[str]]] = {}
    for key, values in [*typed.items(), *chosen.items(), *found.items()]:
        kept.setdefault(_partition(values), (key, values))
    short = Counter(_short(key) for key, _ in kept.values())
    return {_short(key) if short[_short(key)] == 1 else key: values for key, values in kept.values()}


def _typed_group(group: str, command: str) -> str:
    """Return the file of a config group that was asked for: ``sb3`` of ``her=sb3``."""
    typed = re.findall(rf"(?:^|\s){group}=(\S+)", command)
    return typed[-1] if typed else "default"


def _partition(values: Sequence[str]) -> tuple[int, ...]:
    """Say which of the values are the same."""
    return tuple(values.index(value) for value in values)


def _listed(words: Sequence[str], most: int = 3) -> str:
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def _word(key: str, curve: Curve) -> str:
    """Return a value as a label has it; one that does not say what it is, such as a number, with its key."""
    value = curve.value(key)
    return str(value) if key in SHORT else f"{_short(key)}={value}"


def _short(key: str) -> str:
    """Return the last part of a key; of ``engine.name`` the first, which says more."""
    section, _, name = key.rpartition(".")
    return section if name == "name" else name
