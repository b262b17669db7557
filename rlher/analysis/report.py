"""Render the HTML report: all text is escaped, and a Content-Security-Policy forbids everything from outside."""

import base64
import hashlib
import mimetypes
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from rlher import __version__
from rlher.analysis.aggregation import GroupCurve, aggregate
from rlher.analysis.columns import REPORTED
from rlher.analysis.comparison import few_seeds_notes
from rlher.analysis.grouping import Group
from rlher.analysis.plotting import caption, line_styles, to_svg
from rlher.analysis.study import Study
from rlher.analysis.tables import configuration, tables
from rlher.core.console import escape_control
from rlher.core.errors import first_line
from rlher.core.safe_read import links_outside, require_regular_file
from rlher.run.metadata import commands

X, Y = "timesteps", "success_rate"

MAX_FILE_BYTES = 8_000_000
"""Size limit of one clip or picture."""
MAX_TOTAL_BYTES = 40_000_000
"""Size limit of all clips together, so that the page can be sent by e-mail and opened on a phone."""
CLIP_PATTERNS = ("enjoy.mp4", "enjoy.gif", "clips/*.mp4", "clips/*.gif")
"""Clips of a run folder."""


class EmbeddedFile(NamedTuple):
    """A file inside the page.

    :param uri: its content, ``data:video/mp4;base64,...``.
    """

    path: Path
    uri: str


def render(
    title: str, groups: Sequence[Group], studies: Sequence[Study], notes: Sequence[str], command: str
) -> tuple[str, list[str]]:
    """Return the page as HTML, and a message for each file left out.

    :param groups: runs to compare; may be empty.
    :param notes: messages about skipped files, shown on the page.
    :param command: the command line of the report.
    """
    script = _read("report.js")  # the only one of the page: the buttons beside commands
    runs = [run for group in groups for run in group.runs]
    clips, left_out = embed_all(path for run in runs for path in clips_of(run.folder))
    pictures, more = zip(*(embed_all(study.pictures) for study in studies), strict=True) if studies else ([], [])
    new_notes = [*left_out, *chain.from_iterable(more)]
    curves = [aggregate(group, X, Y) for group in groups]
    envs = list(dict.fromkeys(group.env for group in groups))
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = template.from_string(_read("report.html")).render(
        title=title,
        notes=[*notes, *new_notes],
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        report_command=command,
        style=Markup(_read("report.css")),
        script=Markup(script),
        policy=_policy(script),
        runs=runs,
        groups=groups,
        names=[group.name if len(envs) > 1 else group.label for group in groups],
        charts=[_charts(env, curves) for env in envs],
        caption=caption(curves),
        few_seeds=few_seeds_notes(groups),
        tables=tables(groups),
        clips=clips,
        studies=list(zip(studies, pictures, strict=True)),
        configuration=configuration(groups) if groups else (),
        commands=commands,
    )
    return _escape_lines(page), new_notes


def _charts(env: str, curves: Sequence[GroupCurve]) -> tuple[str, Markup, dict[str, Markup]]:
    """Return an environment, its learning curves, and a small chart of each column in which a run has numbers."""
    styles, training = line_styles(curves), {}
    curves = [curve for curve in curves if curve.group.env == env]
    for column in REPORTED:
        small = [aggregate(curve.group, X, column) for curve in curves]
        if any(len(each.x) for each in small):
            training[column] = Markup(to_svg(small, X, column, styles, with_legend=False))
    return env, Markup(to_svg(curves, X, Y, styles, with_legend=True)), training


def _escape_lines(page: str) -> str:
    """Escape control characters, which a copied command would bring to a terminal."""
    return "\n".join(line if line.isprintable() else escape_control(line) for line in page.split("\n"))


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _policy(script: str) -> str:
    """Return a Content-Security-Policy under which nothing is fetched and no other script runs.

    Inline styles are allowed, because matplotlib's SVG uses them.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "media-src data:; base-uri 'none'; form-action 'none'"
    )


def embed_all(paths: Iterable[Path]) -> tuple[list[EmbeddedFile], list[str]]:
    """Embed pictures or clips up to :data:`MAX_TOTAL_BYTES`.

    :return: the embedded files, and a message for each file left out.
    """
    found: list[EmbeddedFile] = []
    notes: list[str] = []
    bytes_left = MAX_TOTAL_BYTES
    for path in paths:
        try:
            require_regular_file(path, min(bytes_left, MAX_FILE_BYTES))
            content = path.read_bytes()
        except (OSError, ValueError) as error:
            notes.append(f"left out {path}: {first_line(error)}")
            continue
        bytes_left -= len(content)
        kind, _ = mimetypes.guess_type(path.name)
        found.append(EmbeddedFile(path, f"data:{kind};base64,{base64.b64encode(content).decode()}"))
    return found, notes


def clips_of(folder: Path) -> list[Path]:
    """Return the clips of a run folder, without links that lead out of it."""
    return [
        path for pattern in CLIP_PATTERNS for path in sorted(folder.glob(pattern)) if not links_outside(path, folder)
    ]
