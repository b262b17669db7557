"""Config keys of the commands that read the results of several runs: plot, compare and report."""

from dataclasses import dataclass

from rlher.config.key import output_key


@dataclass
class CurvesConfig:
    """Selection and grouping of runs."""

    runs: list[str] = output_key([], "run folders, or folders of runs; empty: `logs`", positional=True)
    logs: str = output_key("logs", "folder of all runs")
    by: list[str] = output_key(
        [], "keys to group by, such as her.n_sampled_goal; empty: algo, her and other keys that differ"
    )


@dataclass
class PlotConfig(CurvesConfig):
    """Config keys of `rlher plot`."""

    x: str = output_key("steps", "horizontal axis", choices=("steps", "wall", "updates"))
    y: str = output_key(
        "success_rate", "column of evaluations.csv or progress.csv to draw, such as mean_reward or object_moved"
    )
    output: list[str] = output_key([], "files to write, .png, .pdf or .svg; empty: <logs>/<y>.png and .pdf")
    csv: str | None = output_key(None, "CSV file to write the drawn numbers to")
    show: bool = output_key(False, "open a window as well")
