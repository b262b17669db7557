"""Config keys of the commands that read the results of several runs: plot, compare and report."""

from dataclasses import dataclass

from rlher.config.key import key


@dataclass
class CurvesConfig:
    """What `rlher plot`, `rlher compare` and `rlher report` share."""

    runs: list[str] = key([], "run folders, or folders of them; none: `logs`")
    logs: str = key("logs", "folder of all runs")
    by: list[str] = key([], "keys that make groups, such as her.n_sampled_goal; none: algo, her and what else differs")


@dataclass
class PlotConfig(CurvesConfig):
    """`rlher plot`."""

    x: str = key("steps", "what to draw over", choices=("steps", "wall", "updates"))
    y: str = key("success_rate", "column of evaluations.csv to draw")
    output: list[str] = key([], "pictures to write, .png, .pdf or .svg; none: <logs>/<y>.png and .pdf")
    csv: str | None = key(None, "file for the drawn numbers")
    show: bool = key(False, "open a window as well")


@dataclass
class CompareConfig(CurvesConfig):
    """`rlher compare`."""

    format: str = key("text", "of the tables; csv: plain numbers", choices=("text", "markdown", "csv", "latex"))


@dataclass
class ReportConfig(CurvesConfig):
    """`rlher report`."""

    runs: list[str] = key([], "run folders, folders of them, or a study of `rlher optimize`; none: `logs`")
    output: str | None = key(None, "page to write, .html; null: <logs>/report.html")
    title: str | None = key(None, "of the page; null: its environments")
