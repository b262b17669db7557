"""Config keys of the commands that read the results of several runs: plot, compare and report."""

from dataclasses import dataclass

from rlher.config.key import key


@dataclass
class CurvesConfig:
    """Selection and grouping of runs."""

    runs: list[str] = key([], "run folders, or folders of runs; empty: `logs`", positional=True, affects="output")
    logs: str = key("logs", "folder of all runs", affects="output")
    by: list[str] = key(
        [],
        "keys to group by, such as her.n_sampled_goal; empty: algo, her and other keys that differ",
        affects="output",
    )


@dataclass
class PlotConfig(CurvesConfig):
    """Config keys of `rlher plot`."""

    x: str = key("steps", "horizontal axis", choices=("steps", "wall", "updates"), affects="output")
    y: str = key("success_rate", "column of evaluations.csv to draw", affects="output")
    output: list[str] = key([], "files to write, .png, .pdf or .svg; empty: <logs>/<y>.png and .pdf", affects="output")
    csv: str | None = key(None, "CSV file to write the drawn numbers to", affects="output")
    show: bool = key(False, "open a window as well", affects="output")
