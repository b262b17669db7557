"""Put runs into labelled groups that may be averaged: runs that differ in nothing but their seed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rlher.analysis.loading import KEY_ALIASES, LoadedRun, read_runs
from rlher.config.training import keys_ignored_by
from rlher.core.console import escape_control
from rlher.core.errors import UserError, did_you_mean

DEFAULT_BY = ("algo", "her")

EMPTY = {"None", "[]", "{}"}
"""Values that a label leaves out, because a key is empty where an option is not used."""

IGNORED_KEYS = keys_ignored_by("grouping")
"""Keys in which runs of one experiment may differ: seed, length, machine, evaluation and output."""


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
    sources = {Path(folder).resolve(): (folder, name) for folder, name in map(_split_name, paths or [logs])}
    found, notes = [], []
    for folder, _ in sources.values():
        runs, skipped = read_runs(folder)
        found.append(runs)
        notes += skipped or ([] if runs else [f"skipped {folder}: it contains no run"])
    if not any(found):
        raise UserError(f"no run with an evaluation under {', '.join(paths or [logs])} ({'; '.join(notes)}).")
    folders, names = zip(*sources.values(), strict=True)
    are_runs = all((path / "config.yaml").exists() for path in sources)
    if by or (not any(names) and (len(folders) == 1 or are_runs)):
        groups, more = group_runs(list({run.folder.resolve(): run for run in chain(*found)}.values()), by)
        return groups, notes + more
    pools: dict[tuple[str, str], list[LoadedRun]] = defaultdict(list)
    for name, label, runs in zip(names, folder_labels(folders), found, strict=True):
        for run in runs:
            pools[run.env, name or label].append(run)
    groups = []
    for (env, label), pool in pools.items():
        kept, repeated = drop_repeated_runs(pool)
        notes += repeated
        groups.append(Group(env, label, kept))
    return groups, notes + _pooling_notes(groups)


def _split_name(path: str) -> tuple[str, str]:
    """Return the folder and the name of ``NAME=folder``; the name of a plain folder is empty."""
    name, equals, folder = path.partition("=")
    return (folder, name) if equals and not Path(path).exists() else (path, "")


def folder_labels(paths: Sequence[str]) -> list[str]:
    """Return the names of different folders, or their paths if two names are equal."""
    names = [escape_control(Path(path).resolve().name) for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def group_runs(runs: Sequence[LoadedRun], by: Sequence[str] = (), source: str = "") -> tuple[list[Group], list[str]]:
    """Group runs by environment and some config keys.

    Without ``by`` the keys are algorithm and strategy, and groups are split by every other key that differs: a mean
    over two learning rates is not a mean over seeds. With ``by`` all other differences are pooled.

    :param by: config keys or aliases.
    :param source: where the runs come from, which each label then begins with; groups of other sources may have the
        same keys.
    :return: the groups, and a message for each repeated run and each group that pools different configurations.
    :raises UserError: no run has a key of ``by``.
    """
    for key in by:
        if all(run.value(key) is None for run in runs):
            known = {name for run in runs for name in run.config} | set(KEY_ALIASES)
            raise UserError(f"no run has a key {key!r}{did_you_mean(key, known)}.")
    runs, notes = drop_repeated_runs(runs)
    pools: dict[tuple[str, ...], list[LoadedRun]] = defaultdict(list)
    for run in runs:
        values = {key: str(run.value(key)) for key in by or DEFAULT_BY}
        names = (value if key in KEY_ALIASES else f"{key}={value}" for key, value in values.items())
        pools[(run.env, *names)].append(run)
    groups = []
    for (env, *parts), pool in pools.items():
        for more, members in {(): pool}.items() if by else _split(pool).items():
            label = ", ".join([*parts, *more])
            groups.append(Group(env, f"{source}: {label}" if source else label, members))
    return groups, notes + _pooling_notes(groups)


def drop_repeated_runs(runs: Sequence[LoadedRun]) -> tuple[list[LoadedRun], list[str]]:
    """Keep the longest of the runs with equal configuration and seed: a copy is not another sample.

    :return: the runs kept, and a message for each run left out.
    """
    kept: dict[str, LoadedRun] = {}
    notes = []
    for run in runs:
        keys = sorted(key for key in run.config if key == "seed" or is_experiment_key(key))
        identity = repr([(key, run.config[key]) for key in keys])
        other = kept.setdefault(identity, run)
        if other is not run:
            longer, shorter = sorted((run, other), key=lambda each: -each.timesteps)
            kept[identity] = longer
            notes.append(f"left out {shorter.folder}: same configuration and seed as {longer.folder}")
    return list(kept.values()), notes


def is_experiment_key(key: str) -> bool:
    """Return whether runs with different values of a config key are different experiments."""
    return key not in IGNORED_KEYS and not key.startswith("meta.")


def _pooling_notes(groups: Sequence[Group]) -> list[str]:
    """Return a message for each group whose runs differ in more than their seed."""
    differing = {group.name: list(_differing_values(group.runs)) for group in groups}
    return [
        f"{name}: pools runs that differ in {', '.join(keys[:3])}{f' and {len(keys) - 3} more' * (len(keys) > 3)}"
        for name, keys in differing.items()
        if keys
    ]


def _differing_values(runs: Sequence[LoadedRun]) -> dict[str, list[str]]:
    """Return the value in each run of the keys in which experiments differ."""
    keys = sorted({key for run in runs for key in run.config if is_experiment_key(key)})
    values = {key: [str(run.config.get(key)) for run in runs] for key in keys}
    return {key: texts for key, texts in values.items() if len(set(texts)) > 1}


def _split(runs: Sequence[LoadedRun]) -> dict[tuple[str, ...], list[LoadedRun]]:
    """Return the runs of each configuration, by ``("key=value", ...)`` of the keys that tell them apart.

    Several keys may divide the runs in the same way, such as ``her.priority`` and ``her.energy_height``. Then the label
    has only one of them. A key that was typed on the command line comes first, then one that no run leaves empty.
    """
    values = _differing_values(runs)
    typed = {key for key in values if any(f"{key}=" in run.command for run in runs)}
    chosen: dict[tuple[int, ...], str] = {}
    for key in sorted(values, key=lambda key: (key not in typed, not EMPTY.isdisjoint(values[key]))):
        chosen.setdefault(tuple(map(values[key].index, values[key])), key)
    splits: dict[tuple[str, ...], list[LoadedRun]] = defaultdict(list)
    for index, run in enumerate(runs):
        given = {key: values[key][index] for key in sorted(chosen.values()) if values[key][index] not in EMPTY}
        splits[tuple(f"{key}={value}" for key, value in given.items())].append(run)
    return splits
