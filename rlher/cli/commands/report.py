"""Write curves, tables, clips and versions of runs as one HTML page."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlher.config.commands import ReportConfig
from rlher.core.console import warn
from rlher.core.errors import UserError
from rlher.core.files import output_file
from rlher.core.safe_read import links_outside

if TYPE_CHECKING:
    from rlher.analysis.grouping import Group
    from rlher.analysis.loading import Note
    from rlher.analysis.study import LoadedStudy


def run(config: ReportConfig, command: str) -> int:
    """Write the page and print its path."""
    print(write(config, command))
    return 0


def write(config: ReportConfig, command: str) -> Path:
    """Write an HTML file that needs no other file and no network, and return its path.

    :raises UserError: there are no runs, or the page cannot be written.
    """
    from rlher.analysis.embedding import clips_of, embed
    from rlher.analysis.grouping import output_beside
    from rlher.analysis.report import render
    from rlher.analysis.study import is_study, read_study

    path = Path(config.output or f"{output_beside(config, 'report')}.html")
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"output={str(path)!r} is not a page; its name must end in .html.")
    notes: list[str] = []

    def note(message: str) -> None:
        notes.append(message)
        warn(message)

    folders = {Path(name).resolve(): Path(name) for name in config.runs if is_study(Path(name))}
    studies = [read_study(folder, note) for folder in folders.values()]
    groups = _groups(config, studies, note)
    clips = embed((path for group in groups for run in group.runs for path in clips_of(run.folder)), note)
    subjects = dict.fromkeys([*(group.env for group in groups), *(study.name for study in studies)])
    page = render(config.title or ", ".join(subjects), groups, studies, clips, notes, command)
    with output_file(path) as temporary:
        # The name of a folder may not be valid UTF-8.
        temporary.write_text(page, encoding="utf-8", errors="replace")
    return path


def _groups(config: ReportConfig, studies: "list[LoadedStudy]", note: "Note") -> "list[Group]":
    """Read the compared runs, and the re-runs of each study's best trials.

    Beside other runs, the re-runs are named after their study, because their own labels may be equal.
    """
    from rlher.analysis.grouping import folder_labels, group_runs, load_groups
    from rlher.analysis.loading import read_runs
    from rlher.analysis.study import RERUNS, is_study

    folders = [name for name in config.runs if not is_study(Path(name))]
    groups = [] if studies and not folders else load_groups(folders, config.logs, config.by, note)
    named = bool(groups) or len(studies) > 1
    for study, name in zip(studies, folder_labels([str(study.folder) for study in studies]), strict=True):
        reruns = study.folder / RERUNS
        if reruns.is_dir() and not links_outside(reruns) and (runs := read_runs(str(reruns), note)):
            found = group_runs(runs, config.by, note)
            groups += [replace(group, label=f"{name}: {group.label}") for group in found] if named else found
    return groups
