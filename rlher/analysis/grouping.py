"""Put runs into labelled groups to average over, by default groups of runs that differ only in their seed."""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from rlher.analysis.loading import LABEL_KEYS, RecordedRun, read_runs
from rlher.config.command_configs import RunSelectionConfig
from rlher.config.training import all_run_keys
from rlher.core.console import escape_control, warn
from rlher.core.errors import UserError, did_you_mean
from rlher.core.stats import MIN_IQM_RUNS
from rlher.core.writing import display_path
from rlher.run.run_folder import CONFIG_FILE

DEFAULT_BY = ("algo", "her")

EMPTY_VALUES = ["None", "[]", "{}"]
"""Values that a label leaves out, because a key is empty where an option is not used."""

Item = TypeVar("Item")
Key = TypeVar("Key")

POOLED_KEYS = {*LABEL_KEYS} | {
    name for name, key in all_run_keys().items() if not key.rules.is_param or key.rules.may_differ_in_group
}
"""Keys in which runs of one group may differ: seed, length, machine, evaluation and output."""


@dataclass(frozen=True)
class Group:
    """Runs to average over: the seeds of one experiment, or all runs that ``--by`` pools.

    :param label: name of the group, unique within the environment.
    :param runs: the runs of the group, at least one.
    """

    env: str
    label: str
    runs: list[RecordedRun]

    @property
    def name(self) -> str:
        """Environment and label."""
        return f"{self.env}, {self.label}"


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return lists of the items with the same key, by key. Keys and items keep their order of appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def seeds_text(counts: Collection[int]) -> str:
    """Return ``1 seed``, ``3 seeds`` or ``3–5 seeds``."""
    low, high = min(counts), max(counts)
    return f"{low}–{high} seeds" if high > low else f"{high} seed{'s' if high > 1 else ''}"


def mean_text(counts: Collection[int]) -> str:
    """Return the name of the statistic that :func:`rlher.core.stats.iqm` computes with these numbers of seeds."""
    fewer = f" (mean if fewer than {MIN_IQM_RUNS})" if min(counts) < MIN_IQM_RUNS else ""
    return f"interquartile mean{fewer}" if max(counts) >= MIN_IQM_RUNS else "mean"


Labels = dict[RecordedRun, str]
"""Label of each run's group."""


def load_groups(config: RunSelectionConfig) -> list[Group]:
    """Read and group the runs to compare.

    - Several folders of runs: each folder is a group, named after the folder.
    - ``NAME=folder``: the folders or runs with the same name are a group.
    - A single folder, no folder (``logs``), run folders, or ``by``: :func:`group_runs` makes the groups.

    :raises UserError: a folder does not exist, no folder has a run with an evaluation, or no run has a key of ``by``.
    """
    sources = {(Path(folder).resolve(), name): folder for folder, name in config.named_folders()}
    runs_by_source = [read_runs(folder) for folder in sources.values()]
    if not any(runs_by_source):
        raise UserError(f"no run with an evaluation under {', '.join(sources.values())}.")

    names = [name for _, name in sources]
    are_runs = all((folder / CONFIG_FILE).exists() for folder, _ in sources)
    one_group_each = any(names) or (len(sources) > 1 and not are_runs)
    if config.by or not one_group_each:
        return group_runs([run for runs in runs_by_source for run in runs], config.by)
    labels = [name or label for name, label in zip(names, folder_labels([*sources.values()]), strict=True)]
    return _make_groups({run: label for label, runs in zip(labels, runs_by_source, strict=True) for run in runs})


def output_beside(config: RunSelectionConfig, name: str) -> Path:
    """Return the path of a picture or page in the folder that holds all runs to compare.

    The path is in ``logs`` if there is no such folder, or if rlher cannot write to the folder.

    :param name: name of the file.
    """
    parent = Path(os.path.commonpath([Path(folder).absolute() for folder, _ in config.named_folders()]))
    if parent == Path(parent.anchor) or not os.access(parent, os.W_OK):
        parent = Path(config.logs).absolute()
    return display_path(parent / name)


def folder_labels(paths: Sequence[str]) -> list[str]:
    """Return the names of different folders, or their paths if two names are equal."""
    names = [escape_control(Path(path).resolve().name) for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def group_runs(runs: Sequence[RecordedRun], by: Sequence[str] = ()) -> list[Group]:
    """Group runs by environment and some config keys.

    Without ``by``, the keys are algorithm, strategy and every other key that differs: a mean over two learning rates is
    not a mean over seeds. A label names only differing keys. With ``by``, runs that differ in other keys are pooled.

    :param by: config keys or short names.
    :raises UserError: no run has a key of ``by``.
    """
    known = {key for run in runs for key in run.values}
    if unknown := [key for key in by if key not in known]:
        raise UserError(f"no run has a key {unknown[0]!r}{did_you_mean(unknown[0], known)}.")

    differing = [key for key in DEFAULT_BY if len({run.values[key] for run in runs}) > 1]
    keys = by or differing
    labels = {run: ", ".join(_label_part(key, run.values.get(key)) for key in keys) for run in runs}
    if by:
        return _make_groups(labels)
    for (_, label), pool in _by_env_and_label(labels).items():
        labels |= _labels_with_differences(label, pool)
    return _make_groups(labels)


def separates_groups(key: str) -> bool:
    """Return whether runs with different values of a config key belong to different groups."""
    return key not in POOLED_KEYS and not key.startswith("meta.")


def _label_part(key: str, value: Any) -> str:
    return str(value) if key in LABEL_KEYS else f"{key}={value}"


def _by_env_and_label(labels: Labels) -> dict[tuple[str, str], list[RecordedRun]]:
    return group_by(labels, lambda run: (run.values["env"], labels[run]))


def _make_groups(labels: Labels) -> list[Group]:
    """Return a group for each environment and label, without repeated runs. Warn of pooled runs that differ."""
    groups = []
    for (env, label), pool in _by_env_and_label(labels).items():
        group = Group(env, label, _without_repeated(pool))
        groups.append(group)
        keys = _differences(group.runs).columns.tolist()
        # _differences leaves out total_timesteps, because runs of one group may differ in length.
        if len({str(run.values["total_timesteps"]) for run in group.runs}) > 1:
            keys.append("total_timesteps")
        if keys:
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            warn(f"{group.name}: pools runs that differ in {', '.join(keys[:3])}{more}; by={keys[0]} separates them")
    return groups


def _without_repeated(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Of runs with equal configuration and seed, keep only the longest, because a copy is not another sample."""
    longest: dict[str, RecordedRun] = {}
    for run in sorted(runs, key=lambda run: run.timesteps, reverse=True):
        values = {key: run.values[key] for key in sorted(run.values) if key == "seed" or separates_groups(key)}
        kept = longest.setdefault(repr(values), run)
        if kept is not run:
            warn(f"left out {run.folder}: same configuration and seed as {kept.folder}")
    return [run for run in runs if run in longest.values()]


def _differences(runs: Sequence[RecordedRun]) -> pd.DataFrame:
    """Return a table of the config keys that separate the runs into groups: a row per run, values as text."""
    values = [{key: str(value) for key, value in run.values.items() if separates_groups(key)} for run in runs]
    table = pd.DataFrame(values).fillna("None").sort_index(axis="columns")
    return table.loc[:, table.nunique() > 1]


def _labels_with_differences(label: str, runs: Sequence[RecordedRun]) -> Labels:
    """Return a label for each run: the given label and ``key=value`` for keys that differ between the runs.

    Several keys may divide the runs in the same way, such as ``her.priority`` and ``her.priority_kwargs``. Then the
    label has only one of these keys, if possible a key that no run leaves empty.
    """
    table = _differences(runs)
    keys = sorted(table.columns, key=lambda key: table[key].isin(EMPTY_VALUES).any())
    divisions = table[keys].apply(lambda values: values.factorize()[0])  # values as numbers, in order of appearance
    needed = sorted(divisions.T.drop_duplicates().index)
    labels = {}
    for run, values in zip(runs, table[needed].to_dict("records"), strict=True):
        parts = [label] if label else []
        parts += [_label_part(str(key), value) for key, value in values.items() if value not in EMPTY_VALUES]
        labels[run] = ", ".join(parts or [str(run.values[key]) for key in DEFAULT_BY])
    return labels
