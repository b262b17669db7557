"""Differences between groups of runs: configuration, package versions and machines."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlher.analysis.grouping import Group, is_experiment_key
from rlher.analysis.loading import LoadedRun
from rlher.config.override_syntax import literal
from rlher.core.nested import flatten
from rlher.core.safe_read import read_json

MISSING = "–"


@dataclass(frozen=True)
class Key:
    """One key in all groups.

    :param cells: one text per group: the distinct values of its runs.
    :param differs: whether two runs have different values.
    """

    name: str
    cells: list[str]
    differs: bool


def configuration(groups: Sequence[Group]) -> list[Key]:
    """Return the keys of the runs' configuration.

    Differing keys that distinguish experiments come first, then other differing keys (seed, length), then the rest.
    ``logs`` is left out.
    """
    runs = [
        [{key: value for key, value in run.config.items() if key != "logs"} for run in group.runs] for group in groups
    ]
    keys = _keys(runs)
    sections = list(dict.fromkeys(key.name.partition(".")[0] for key in keys))

    def order(key: Key) -> tuple[bool, bool, int]:
        secondary = key.differs and not is_experiment_key(key.name)
        return not key.differs, secondary, sections.index(key.name.partition(".")[0])

    return sorted(keys, key=order)


def versions(groups: Sequence[Group]) -> list[Key]:
    """Return the runs' package versions, commit and machine from their ``meta.json``, differing keys first."""
    keys = _keys([[_read_versions(run) for run in group.runs] for group in groups])
    return sorted(keys, key=lambda key: not key.differs)


def _read_versions(run: LoadedRun) -> dict[str, Any]:
    meta = dict(flatten(read_json(run.folder / "meta.json")))
    values = {key.removeprefix("packages."): value for key, value in meta.items() if key not in ("started", "seed")}
    if isinstance(commit := values.get("git.commit"), str):
        values["git.commit"] = commit[:10]
    return values


def _keys(groups: Sequence[Sequence[Mapping[str, Any]]]) -> list[Key]:
    names = dict.fromkeys(name for runs in groups for values in runs for name in values)
    found, ordered = [], sorted(names)
    for name in names:
        if _is_section(name, ordered):
            continue  # a section that is empty in some run
        texts = [[_text(values[name]) if name in values else MISSING for values in runs] for runs in groups]
        cells = [", ".join(dict.fromkeys(each)) for each in texts]
        found.append(Key(name, cells, len({text for each in texts for text in each}) > 1))
    return found


def _is_section(name: str, ordered: Sequence[str]) -> bool:
    index = bisect_left(ordered, f"{name}.")
    return index < len(ordered) and ordered[index].startswith(f"{name}.")


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | dict) else literal(value)
