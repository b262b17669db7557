"""Putting the page together: everything on it is escaped, and a policy inside it forbids whatever is not its own."""

import base64
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import resources

from jinja2 import Environment, StrictUndefined

from rlher import COMMAND, __version__
from rlher.analysis import comparison
from rlher.analysis.aggregation import remarks
from rlher.analysis.html import charts, config_diff, media
from rlher.analysis.html.study_section import StudyPage
from rlher.analysis.loading import Group
from rlher.analysis.tables import tables


@dataclass(frozen=True)
class Content:
    """What a page is made of.

    :param title: of the page.
    :param groups: runs to compare; perhaps none.
    :param studies: of `rlher optimize`.
    :param notes: a sentence about whatever was passed over.
    """

    title: str
    groups: Sequence[Group]
    studies: Sequence[StudyPage]
    notes: Sequence[str]


def render(content: Content) -> tuple[str, list[str]]:
    """Return the page as HTML, and a sentence about each clip that was left out and each line that was thinned."""
    runs = [curve for group in content.groups for curve in group.curves]
    clips, notes = media.embed_all(path for curve in runs for path in media.clips(curve.folder))
    lines = charts.averages(content.groups)
    notes += remarks(lines)
    script, style = (resources.files(__package__).joinpath(name).read_text("utf-8") for name in ("page.js", "page.css"))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(resources.files(__package__).joinpath("page.html").read_text("utf-8"))
    several = len({group.env for group in content.groups}) > 1
    page = template.render(
        title=content.title,
        notes=[*content.notes, *notes],
        version=__version__,
        written=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        command=os.environ.get(COMMAND, ""),
        script=script,
        style=style,
        policy=_policy(script, style),
        runs=runs,
        groups=content.groups,
        names=[f"{group.env}, {group.label}" if several else group.label for group in content.groups],
        charts=charts.learning_curves(lines),
        profiles=charts.profiles(content.groups),
        caveats=comparison.caveats(content.groups),
        tables=tables(content.groups),
        clips=clips,
        studies=content.studies,
        configuration=config_diff.configuration(content.groups),
        environment=config_diff.environment(content.groups),
    )
    return page, notes


def _policy(script: str, style: str) -> str:
    """Return a Content-Security-Policy under which nothing is fetched and nothing but our own script runs."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style))
    allowed = "script-src 'sha256-{}'; style-src 'sha256-{}'".format(*hashes)
    return f"default-src 'none'; {allowed}; img-src data:; media-src data:; base-uri 'none'; form-action 'none'"
