"""Render the HTML report: all text is escaped, and a Content-Security-Policy forbids everything from outside."""

import base64
import hashlib
import os
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import resources

from jinja2 import Environment, StrictUndefined, Template

from rlher import COMMAND, __version__
from rlher.analysis.aggregation import aggregate, downsampling_notes
from rlher.analysis.comparison import few_seeds_notes
from rlher.analysis.grouping import Group
from rlher.analysis.html import charts, config_diff, media
from rlher.analysis.html.study_section import Study
from rlher.analysis.style import caption
from rlher.analysis.tables import tables
from rlher.core.console import escape_control
from rlher.runs.run_command import resume_note, single_run_command


def render(
    title: str, groups: Sequence[Group], studies: Sequence[Study], notes: Sequence[str]
) -> tuple[str, list[str]]:
    """Return the page as HTML, and a message for each clip left out and each downsampled curve.

    :param groups: runs to compare; may be empty.
    :param notes: messages about skipped files, shown on the page.
    """
    runs = [run for group in groups for run in group.runs]
    clips, new_notes = media.embed_all(path for run in runs for path in media.clips(run.folder))
    curves = [aggregate(group, charts.X, charts.Y) for group in groups]
    new_notes += downsampling_notes(curves)
    script, style = _read("page.js"), _read("page.css")
    learning, profiles = charts.learning_curves(curves), charts.performance_profiles(groups)
    training = charts.training_curves(groups)
    several_envs = len({group.env for group in groups}) > 1
    page = _template().render(
        title=title,
        notes=[*notes, *new_notes],
        version=__version__,
        written=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        report_command=os.environ.get(COMMAND, ""),
        script=script,
        style=style,
        policy=_policy(script, style),
        runs=runs,
        groups=groups,
        names=[group.name if several_envs else group.label for group in groups],
        charts=learning,
        caption=caption(curves),
        profiles=profiles,
        training=training,
        few_seeds=few_seeds_notes(groups),
        tables=tables(groups),
        clips=clips,
        studies=studies,
        configuration=config_diff.configuration(groups),
        versions=config_diff.versions(groups),
        single_run_command=single_run_command,
        resume_note=resume_note,
    )
    return _escape_lines(page), new_notes


def _escape_lines(page: str) -> str:
    """Escape control characters, which a copied command would bring to a terminal."""
    return "\n".join(line if line.isprintable() else escape_control(line) for line in page.split("\n"))


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_read("page.html"))


def _policy(script: str, style: str) -> str:
    """Return a Content-Security-Policy under which nothing is fetched and only this script and style apply."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style))
    allowed = "script-src 'sha256-{}'; style-src 'sha256-{}'".format(*hashes)
    return f"default-src 'none'; {allowed}; img-src data:; media-src data:; base-uri 'none'; form-action 'none'"
