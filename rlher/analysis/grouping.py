"""Put runs into labelled groups that may be averaged: runs that differ in nothing but their seed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pandas as pd

from rlher.analysis.loading import LoadedRun, read_runs
from rlher.config.override_syntax import split_name
from rlher.config.training import keys_ignored_by
from rlher.core.console import escape_control
from rlher.core.errors import UserError, did_you_mean
from rlher.run.run_folder import CONFIG

DEFAULT_BY = ("algo", "her")

EMPTY = ["None", "[]", "{}"]
"""Values that a label leaves out, because a key is empty where an option is not used."""

IGNORED_KEYS = keys_ignored_by("grouping")
"""Keys in which runs of one experiment may differ: seed, length, machine, evaluation and output."""

Pools = dict[tuple[str, str], list[LoadedRun]]
"""Runs by environment and label."""


@dataclass(frozen=True)
class Group:
    """Runs that are averaged: seeds of one configuration, or all runs pooled by ``--by``.

    :param label: name of the group, unique within the environment.
    :param runs: at least one.
    """

    env: str
    label: str
    runs: list[LoadedRun]

    @property
    def name(self) -> str:
        """Environment and label."""
        return f"{self.env}, {self.label}"


def load_groups(paths: Sequence[str], logs: str, by: Sequence[str]) -> tuple[list[Group], list[str]]:
    """Read and group the runs to compare.

    Several folders of runs are one group each and named after the folder. Folders or runs that are given as
    ``NAME=folder`` are one group for each name. A single folder, none (``logs``), run folders and ``by`` are grouped by
    :func:`group_runs`.

    :return: the groups, and a message for each run that was skipped, left out or pooled.
    :raises MissingFile: a folder does not exist.
    :raises UserError: no folder has a run with an evaluation, or no run has a key of ``by``.
    """
    named = map(split_name, paths or [logs])
    sources = {(Path(folder).resolve(), name): folder for folder, name in named}
    found, notes = [], []
    for folder in sources.values():
        runs, skipped = read_runs(folder)
        found.append(runs)
        notes += skipped or ([] if runs else [f"skipped {folder}: it contains no run"])
    if not any(found):
        raise UserError(f"no run with an evaluation under {', '.join(paths or [logs])} ({'; '.join(notes)}).")
    folders, (resolved, names) = list(sources.values()), zip(*sources, strict=True)
    are_runs = all((path / CONFIG).exists() for path in resolved)
    if by or (not any(names) and (len(folders) == 1 or are_runs)):
        groups, more = group_runs(list({run.folder.resolve(): run for run in chain(*found)}.values()), by)
        return groups, notes + more
    pools: Pools = defaultdict(list)
    for name, label, runs in zip(names, folder_labels(folders), found, strict=True):
        for run in runs:
            pools[run.names["env"], name or label].append(run)
    groups, more = _make_groups(pools)
    return groups, notes + more


def folder_labels(paths: Sequence[str]) -> list[str]:
    """Return the names of different folders, or their paths if two names are equal."""
    names = [escape_control(Path(path).resolve().name) for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def group_runs(runs: Sequence[LoadedRun], by: Sequence[str] = ()) -> tuple[list[Group], list[str]]:
    """Group runs by environment and some config keys.

    Without ``by`` the keys are algorithm, strategy and every other key that differs: a mean over two learning rates is
    not a mean over seeds. A label names only what differs. With ``by`` all other differences are pooled.

    :param by: config keys or short names.
    :return: the groups, and a message for each repeated run and each group that pools different configurations.
    :raises UserError: no run has a key of ``by``.
    """
    for key in by:
        if all(run.value(key) is None for run in runs):
            known = {name for run in runs for name in (*run.config, *run.names)}
            raise UserError(f"no run has a key {key!r}{did_you_mean(key, known)}.")
    pools: Pools = defaultdict(list)
    keys = by or [key for key in DEFAULT_BY if len({run.value(key) for run in runs}) > 1]
    for run in runs:
        values = {key: run.value(key) for key in keys}
        parts = (str(value) if key in run.names else f"{key}={value}" for key, value in values.items())
        pools[run.names["env"], ", ".join(parts)].append(run)
    return _make_groups(pools if by else _split(pools))


def is_experiment_key(key: str) -> bool:
    """Return whether runs with different values of a config key are different experiments."""
    return key not in IGNORED_KEYS and not key.startswith("meta.")


def _default_label(run: LoadedRun) -> str:
    """Return algorithm and strategy, for runs that do not differ."""
    return ", ".join(str(run.value(key)) for key in DEFAULT_BY)


def _make_groups(pools: Pools) -> tuple[list[Group], list[str]]:
    """Return a group of each pool, without repeated runs, and a message for each one that pools configurations."""
    groups, notes = [], []
    for (env, label), pool in pools.items():
        runs, repeated = _drop_repeated(pool)
        groups.append(Group(env, label, runs))
        notes += repeated
        if keys := [*map(str, _differences(runs))]:
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            notes.append(f"{groups[-1].name}: pools runs that differ in {', '.join(keys[:3])}{more}")
    return groups, notes


def _drop_repeated(runs: Sequence[LoadedRun]) -> tuple[list[LoadedRun], list[str]]:
    """Keep the longest of the runs with equal configuration and seed: a copy is not another sample.

    :return: the runs kept, and a message for each run left out.
    """
    settings = [
        repr([(key, run.config[key]) for key in sorted(run.config) if key == "seed" or is_experiment_key(key)])
        for run in runs
    ]
    longest: dict[str, LoadedRun] = {}
    for setting, run in zip(settings, runs, strict=True):
        longest[setting] = max(longest.get(setting, run), run, key=lambda each: each.timesteps)
    notes = [
        f"left out {run.folder}: same configuration and seed as {longest[setting].folder}"
        for setting, run in zip(settings, runs, strict=True)
        if run is not longest[setting]
    ]
    return list(longest.values()), notes


def _differences(runs: Sequence[LoadedRun]) -> pd.DataFrame:
    """Return the config keys in which the runs are different experiments: a row per run, values as text."""
    values = [{key: str(value) for key, value in run.config.items() if is_experiment_key(key)} for run in runs]
    table = pd.DataFrame(values).fillna("None").sort_index(axis="columns")
    return table.loc[:, table.nunique() > 1]


def _split(pools: Pools) -> Pools:
    """Divide each pool by configuration, and extend its label by ``key=value`` of the keys that differ in the pool.

    Several keys may divide the runs in the same way, such as ``her.priority`` and ``her.energy_height``. Then the label
    has only one of them. A key that was typed on the command line comes first, then one that no run leaves empty.
    """
    found: Pools = defaultdict(list)
    for (env, label), runs in pools.items():
        table = _differences(runs)
        typed = {key for key in table if any(f"{key}=" in run.command for run in runs)}
        preferred = table[sorted(table, key=lambda key: (key not in typed, table[key].isin(EMPTY).any()))]
        is_same = preferred.apply(lambda column: pd.factorize(column)[0]).T.duplicated()
        rows = table[sorted(is_same.index[~is_same])].to_dict("records")
        for run, row in zip(runs, rows, strict=True):
            parts = [f"{key}={value}" for key, value in row.items() if value not in EMPTY]
            found[env, ", ".join(filter(None, [label, *parts])) or _default_label(run)].append(run)
    return found
