"""`rlher report`: one page that can be sent, with all that the run folders say."""

from pathlib import Path

from rlher.analysis.grouping import Group, group_runs, load_groups
from rlher.analysis.html.page import Content, render
from rlher.analysis.html.study_section import RERUNS, Study, is_study, read_study
from rlher.analysis.loading import read_runs_below
from rlher.config.curves import ReportConfig
from rlher.core.console import warn
from rlher.core.errors import UserError
from rlher.core.files import links_outside, output_file

KINDS = (".html", ".htm")


def report(config: ReportConfig) -> int:
    """Write an HTML file that needs no other file and no network.

    :raises UserError: no runs, or a page that cannot be written.
    """
    path = Path(config.output or Path(config.logs) / "report.html")
    if path.suffix.lower() not in KINDS:
        raise UserError(f"a page's name must end in {' or '.join(KINDS)}, not {str(path)!r}.")
    studies = [read_study(Path(place)) for place in config.runs if is_study(Path(place))]
    groups, notes = _groups(config, studies)
    content = Content(config.title or _title(groups, studies), groups, studies, notes)
    page, more = render(content)
    for line in [*notes, *more]:
        warn(line)
    with output_file(path) as temporary:
        # A folder's name may hold bytes that are no text.
        temporary.write_text(page, encoding="utf-8", errors="replace")
    print(path)
    return 0


def _groups(config: ReportConfig, studies: list[Study]) -> tuple[list[Group], list[str]]:
    """Read the runs that are compared, and each study's best trials that were run again."""
    places = [place for place in config.runs if not is_study(Path(place))]
    groups, notes = ([], []) if studies and not places else load_groups(places, config.logs, config.by)
    for study in studies:
        again = study.folder / RERUNS
        found, passed = read_runs_below(str(again)) if again.is_dir() and not links_outside(again) else ([], [])
        more, pooled = group_runs(found, config.by) if found else ([], [])
        groups += more
        notes += [*study.notes, *passed, *pooled]
    return groups, notes


def _title(groups: list[Group], studies: list[Study]) -> str:
    return ", ".join(dict.fromkeys([*(group.env for group in groups), *(study.name for study in studies)]))
