"""Write the HTML report, a page that needs no other file. All text in it is escaped."""

import base64
import mimetypes
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rlher import __version__
from rlher.analysis.comparison import all_tables, warn_of_few_seeds
from rlher.analysis.curves import GroupCurve, group_curve
from rlher.analysis.grouping import Group, folder_labels, group_runs, load_groups, output_beside, separates_groups
from rlher.analysis.loading import LABEL_KEYS, RecordedRun, read_runs
from rlher.analysis.plotting import DIAGNOSTICS, caption, choose_line_styles, to_svg
from rlher.analysis.tables import MISSING
from rlher.config.command_configs import ReportConfig
from rlher.core.console import escape_control, format_seconds, recorded_warnings, warn
from rlher.core.errors import UserError, first_line
from rlher.core.nested import to_dotted_keys
from rlher.core.reading import read_json_or_empty, read_table, read_text_or_empty, require_regular_file
from rlher.core.writing import output_file
from rlher.run.run_folder import read_commands, read_metadata
from rlher.tuning.study_folder import RECIPE_FILE, RERUNS_FOLDER, TRIALS_FILE, VERDICT_FILE, is_study

X_COLUMN = "timesteps"
Y_COLUMN = "success_rate"
"""Columns of the learning curves."""

SMALL_CHARTS = ("mean_reward", "critic_loss", "actor_loss", "loss", *DIAGNOSTICS)
"""Columns drawn beside the success rate."""

CLIP_PATTERNS = ("enjoy.mp4", "enjoy.gif", "clips/*.mp4", "clips/*.gif")
"""Clips of a run folder."""
MAX_FILE_BYTES = 8_000_000
"""Size limit of one clip or picture."""
MAX_TOTAL_BYTES = 40_000_000
"""Size limit of all clips together, so that the page can be sent by e-mail and opened on a phone."""


def write_report(config: ReportConfig, command_line: str) -> Path:
    """Write an HTML file that needs no other file and no network, and return its path.

    :param command_line: the command line of the report.
    :raises UserError: there are no runs, or the page cannot be written.
    """
    path = Path(config.output or output_beside(config, "report.html"))
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"output={str(path)!r} is not a page; its name must end in .html.")
    with recorded_warnings() as notes:
        folders = {Path(name).resolve(): Path(name) for name in config.runs if is_study(Path(name))}
        studies = [read_study(folder) for folder in folders.values()]
        groups = _groups(config, list(folders.values()))
        warn_of_few_seeds(groups)
        runs = [run for group in groups for run in group.runs]
        clips = embed(clip for run in runs for pattern in CLIP_PATTERNS for clip in sorted(run.folder.glob(pattern)))
        comparison = all_tables(groups) if groups else []
        curves = [group_curve(group, X_COLUMN, Y_COLUMN) for group in groups]
        envs = list(dict.fromkeys(group.env for group in groups))
        page = _render(
            title=config.title or ", ".join([*envs, *(study["name"] for study in studies)]),
            notes=notes,
            report_command=command_line,
            runs=runs,
            groups=groups,
            names=[group.name if len(envs) > 1 else group.label for group in groups],
            charts=[_charts(env, curves) for env in envs],
            caption=caption(curves, Y_COLUMN),
            tables=comparison,
            clips=clips,
            studies=studies,
            configuration=configuration(groups) if groups else (),
        )
    with output_file(path) as temporary:
        # The name of a folder may not be valid UTF-8.
        temporary.write_text(page, encoding="utf-8", errors="replace")
    return path


def _groups(config: ReportConfig, studies: list[Path]) -> list[Group]:
    """Read the compared runs, and the re-runs of each study's best trials.

    Beside other runs or studies, re-runs are named after their study, because their own labels may be equal.
    """
    folders = [name for name in config.runs if not is_study(Path(name))]
    groups = [] if studies and not folders else load_groups(replace(config, runs=folders))
    is_beside_others = bool(groups) or len(studies) > 1
    for study, name in zip(studies, folder_labels([*map(str, studies)]), strict=True):
        reruns = study / RERUNS_FOLDER
        if reruns.is_dir() and (runs := read_runs(str(reruns))):
            prefix = f"{name}: " if is_beside_others else ""
            groups += [replace(group, label=prefix + group.label) for group in group_runs(runs, config.by)]
    return groups


def embed(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the content of pictures or clips, up to :data:`MAX_TOTAL_BYTES`, as ``data:video/mp4;base64,...``."""
    embedded = {}
    bytes_left = MAX_TOTAL_BYTES
    for path in paths:
        try:
            require_regular_file(path, min(bytes_left, MAX_FILE_BYTES))
            content = path.read_bytes()
        except (OSError, ValueError) as error:
            warn(f"left out {path}: {first_line(error)}")
            continue
        bytes_left -= len(content)
        media_type, _ = mimetypes.guess_type(path.name)
        embedded[path] = f"data:{media_type};base64,{base64.b64encode(content).decode()}"
    return embedded


def _render(**content: Any) -> str:
    """Return the page as HTML.

    :param content: variables of the template ``report.html``.
    """
    files = PackageLoader("rlher.analysis", "")
    templates = Environment(
        loader=files, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = templates.get_template("report.html").render(
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commands=read_commands,
        format_seconds=format_seconds,
        **content,
    )
    # Control characters are escaped, because users may paste the command into a terminal.
    return "\n".join(line if line.isprintable() else escape_control(line) for line in page.split("\n"))


def _charts(env: str, curves: Sequence[GroupCurve]) -> tuple[str, Markup, dict[str, Markup]]:
    """Return an environment, its learning curves, and a small chart for each column whose numbers differ."""
    line_styles = choose_line_styles(curves)
    training = {}
    curves = [curve for curve in curves if curve.group.env == env]
    for column in SMALL_CHARTS:
        small = [group_curve(curve.group, X_COLUMN, column) for curve in curves]
        values = {value for curve in small for run_curve in curve.run_curves for value in run_curve}
        if len(values) > 1:  # a constant column shows nothing
            training[column] = Markup(to_svg(small, column, line_styles, with_legend=False))
    return env, Markup(to_svg(curves, Y_COLUMN, line_styles, with_legend=True)), training


# -------------------------------------------------------------------------------------------- configuration


def configuration(groups: Sequence[Group]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two tables of configuration, package versions and machines: keys that differ, and keys that do not.

    Each table has a row per key and a column per group, with the distinct values of the group's runs as text. Differing
    keys that separate groups come first, then seed and versions.
    """
    runs = pd.DataFrame([_values(run) for group in groups for run in group.runs]).fillna(MISSING)
    names = sorted(map(str, runs.columns), key=separates_groups, reverse=True)
    runs = runs[names]
    group_numbers = [number for number, group in enumerate(groups) for _ in group.runs]
    table = runs.groupby(group_numbers).agg(lambda values: ", ".join(values.unique())).T  # type: ignore[misc]
    differs = runs.nunique() > 1
    return table[differs], table[~differs]


def _values(run: RecordedRun) -> dict[str, str]:
    """Return the keys of a run's config and ``meta.json`` as text, except those that always differ."""
    always_differ = ("started", "seed", "experiment")
    metadata = read_metadata(run.folder)
    compared = {name: value for name, value in metadata.items() if name not in always_differ}
    values = run.values | dict(to_dotted_keys({"meta": compared}))
    return {key: str(value) for key, value in values.items() if key not in (*LABEL_KEYS, "logs", "meta")}


# -------------------------------------------------------------------------------------------------- studies


def read_study(folder: Path) -> dict[str, Any]:
    """Return the report's entries about a study. Entries are empty while the study runs, or if a file is damaged.

    :return: ``counts``, the number of trials by state, as text; ``candidates``, a table of the re-runs, best first;
        ``trials``, a table; ``pictures``, as :func:`embed` returns them. All other entries are texts.
    """
    verdict = read_json_or_empty(folder / VERDICT_FILE)
    trials = verdict.get("trials")
    counts = [f"{count} {state}" for state, count in trials.items()] if isinstance(trials, dict) else []
    return {
        "folder": folder,
        "name": str(verdict.get("study", folder.name)),
        "counts": ", ".join(counts),
        "candidates": _candidates(folder, verdict),
        "best": read_text_or_empty(folder / RECIPE_FILE),
        "command": read_commands(folder).rstrip(),  # a newline would run a pasted line
        "trials": _trials(folder / TRIALS_FILE),
        "pictures": embed(sorted(folder.glob("*.png"))),
    }


def _candidates(folder: Path, verdict: dict[str, Any]) -> pd.DataFrame:
    from rlher.tuning.reruns import table_row  # imports Optuna

    try:
        return pd.DataFrame([table_row(candidate) for candidate in verdict.get("candidates", [])])
    except Exception:  # a damaged file raises many kinds
        warn(f"skipped the candidates of {folder / VERDICT_FILE}: damaged")
        return pd.DataFrame()


def _trials(path: Path) -> pd.DataFrame:
    """Return the columns of ``trials.csv`` that are not empty, as text."""
    try:
        table = read_table(path) if path.is_file() else pd.DataFrame()
    except (OSError, ValueError) as error:  # pandas' exceptions are ValueErrors
        warn(f"skipped {path}: {first_line(error)}")
        return pd.DataFrame()
    shown = table.dropna(axis="columns", how="all")
    as_text = shown.map(lambda cell: f"{cell:.6g}" if isinstance(cell, float) else str(cell), na_action="ignore")
    return as_text.fillna("")
