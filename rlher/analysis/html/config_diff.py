"""What several groups of runs have in common and what tells them apart: configuration, versions, machines."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlher.analysis.loading import Curve, Group, matters
from rlher.config.override_syntax import literal
from rlher.core.files import read_json
from rlher.core.nested import flatten

MISSING = "–"


@dataclass(frozen=True)
class Key:
    """One key over all groups.

    :param name: flatten.
    :param cells: a text a group: its runs' values, those that differ one after the other.
    :param differs: whether not all runs have the same.
    """

    name: str
    cells: list[str]
    differs: bool


def configuration(groups: Sequence[Group]) -> list[Key]:
    """Return the runs' configuration: first the keys that differ and make another experiment of a run, then those that
    differ otherwise (seed, length), then the rest. Where a run lay, ``logs``, is left out."""
    runs = [
        [{key: curve.config[key] for key in curve.config if key != "logs"} for curve in group.curves]
        for group in groups
    ]
    keys = _keys(runs)
    sections = list(dict.fromkeys(key.name.partition(".")[0] for key in keys))

    def order(key: Key) -> tuple[bool, bool, int]:
        aside = key.differs and not matters(key.name)
        return not key.differs, aside, sections.index(key.name.partition(".")[0])

    return sorted(keys, key=order)


def environment(groups: Sequence[Group]) -> list[Key]:
    """Return the runs' versions, commit and machine from their ``meta.json``, those that differ first."""
    keys = _keys([[_versions(curve) for curve in group.curves] for group in groups])
    return sorted(keys, key=lambda key: not key.differs)


def _versions(curve: Curve) -> dict[str, Any]:
    meta = dict(flatten(read_json(curve.folder / "meta.json")))
    named = {key.removeprefix("packages."): value for key, value in meta.items() if key not in ("started", "seed")}
    return {
        key: value[:10] if key == "git.commit" and isinstance(value, str) else value for key, value in named.items()
    }


def _keys(groups: Sequence[Sequence[Mapping[str, Any]]]) -> list[Key]:
    names = dict.fromkeys(name for runs in groups for values in runs for name in values)
    found, ordered = [], sorted(names)
    for name in names:
        if _is_section(name, ordered):
            continue  # a section, of which some run has nothing but {}
        texts = [[_text(values[name]) if name in values else MISSING for values in runs] for runs in groups]
        cells = [", ".join(dict.fromkeys(each)) for each in texts]
        found.append(Key(name, cells, len({text for each in texts for text in each}) > 1))
    return found


def _is_section(name: str, ordered: Sequence[str]) -> bool:
    at = bisect_left(ordered, f"{name}.")
    return at < len(ordered) and ordered[at].startswith(f"{name}.")


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | dict) else literal(value)
