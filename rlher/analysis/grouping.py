"""Put runs into labelled groups that may be averaged: runs that differ in nothing but their seed."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlher.analysis.loading import KEY_ALIASES, LoadedRun, no_runs_found, read_runs, read_runs_below
from rlher.config.training import keys_ignored_by
from rlher.core.errors import UserError, did_you_mean

DEFAULT_BY = ("algo", "her")

EMPTY = ("None", "[]", "{}")
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

    Several folders of runs are one group each and named after the folder. A single folder, none (``logs``), run folders
    and ``by`` are grouped by :func:`group_runs`.

    :return: the groups, and a message for each run that was skipped, left out or pooled.
    :raises MissingFile: a folder does not exist.
    :raises UserError: no folder has a run with an evaluation, or no run has a key of ``by``.
    """
    if by or len(paths) < 2 or all((Path(path) / "config.yaml").exists() for path in paths):
        runs, skipped = read_runs(paths, logs)
        groups, notes = group_runs(runs, by)
        return groups, skipped + notes
    groups, notes = [], []
    folders = list({Path(path).resolve(): path for path in paths}.values())
    for path, label in zip(folders, folder_labels(folders), strict=True):
        runs, skipped = read_runs_below(path)
        notes += skipped or ([] if runs else [f"skipped {path}: it contains no run"])
        runs, repeated = drop_repeated_runs(runs)
        notes += repeated
        for env in dict.fromkeys(run.env for run in runs):
            groups.append(Group(env, label, [run for run in runs if run.env == env]))
            notes += _pooling_notes(groups[-1])
    if not groups:
        raise no_runs_found(paths, notes)
    return groups, notes


def folder_labels(paths: Sequence[str]) -> list[str]:
    """Return the names of different folders, or their paths if two names are equal."""
    names = [Path(path).resolve().name for path in paths]
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
        pools[(run.env, *(_label_part(key, run) for key in by or DEFAULT_BY))].append(run)
    groups = []
    for (env, *parts), pool in pools.items():
        label = (f"{source}: " if source else "") + ", ".join(parts)
        if by:
            groups.append(Group(env, label, pool))
            notes += _pooling_notes(groups[-1])
        else:
            groups += [Group(env, ", ".join([label, *more]), split) for more, split in _split(pool).items()]
    return groups, notes


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
    return key not in IGNORED_KEYS


def _pooling_notes(group: Group) -> list[str]:
    """Return a message if the runs of a group differ in more than their seed."""
    keys = _differing_keys(group.runs)
    listed = ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
    return [f"{group.name}: pools runs that differ in {listed}"] if keys else []


def _differing_keys(runs: Sequence[LoadedRun]) -> list[str]:
    keys = {key for run in runs for key in run.config if is_experiment_key(key)}
    return sorted(key for key in keys if len({repr(run.config.get(key)) for run in runs}) > 1)


def _split(pool: Sequence[LoadedRun]) -> dict[tuple[str, ...], list[LoadedRun]]:
    """Return the runs of each configuration, by ``("name=value", ...)`` without the keys that are empty."""
    splits: dict[tuple[str, ...], list[LoadedRun]] = defaultdict(list)
    keys = _distinguishing_keys(pool)
    names = Counter(map(_short_name, keys))
    for run in pool:
        given = {key: value for key in keys if (value := str(run.config.get(key))) not in EMPTY}
        label = (f"{_short_name(key) if names[_short_name(key)] == 1 else key}={given[key]}" for key in given)
        splits[tuple(label)].append(run)
    return splits


def _distinguishing_keys(pool: Sequence[LoadedRun]) -> list[str]:
    """Return keys that suffice to tell the configurations of some runs apart.

    Of keys that tell the same runs apart, one stands for the others: one that was typed on the command line if there is
    one, else one that no run leaves empty (``priority`` before ``energy_height``).
    """
    values = {key: [str(run.config.get(key)) for run in pool] for key in _differing_keys(pool)}
    typed = {key for key in values if any(f"{key}=" in run.command for run in pool)}
    order = sorted(values, key=lambda key: (key not in typed, not set(EMPTY).isdisjoint(values[key]), key))
    chosen: dict[tuple[int, ...], str] = {}
    for key in order:
        split = tuple(map(values[key].index, values[key]))  # equal for keys that tell the same runs apart
        chosen.setdefault(split, key)
    return sorted(chosen.values())


def _label_part(key: str, run: LoadedRun) -> str:
    """Return a value for a label, with the key's name unless the value alone is clear."""
    value = run.value(key)
    return str(value) if key in KEY_ALIASES else f"{_short_name(key)}={value}"


def _short_name(key: str) -> str:
    """Return the last part of a key, but ``engine`` for ``engine.name``."""
    section, _, name = key.rpartition(".")
    return section if name == "name" else name
