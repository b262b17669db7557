"""Config keys of all commands except `rlher train`, `resume` and `optimize`. Each key is a flag of its command."""

import os
from dataclasses import dataclass, field

from rlher.config.environment import EnvConfig
from rlher.config.key import MAX_SEED, setting, with_default


@dataclass
class ModelChoiceConfig:
    """Keys that choose a run and one of its models."""

    run: str | None = setting(None, "run folder, or (enjoy) dataset; null: newest run", positional=True)
    logs: str = setting("logs", "folder of all runs")
    model: str = setting("auto", "model of the run: best, last, or steps of eval.keep_models; auto: best or last")
    json: bool = setting(False, "print the result as JSON on stdout")
    trust_code: bool = setting(False, "run the code that the config.yaml of somebody else's run names")


@dataclass
class PlayConfig(ModelChoiceConfig):
    """Keys of the commands that play episodes: `rlher evaluate`, `enjoy` and `collect`."""

    agent: str | None = setting(None, "pretrained agent (`rlher list agents`)")
    seed: int = setting(1_000_000, "seed of the first episode; the next ones count up", low=0, high=MAX_SEED)
    deterministic: bool = setting(True, "deterministic actions; --no-deterministic: sampled actions")
    device: str = setting("cpu", "torch device")


@dataclass
class EvaluateConfig(PlayConfig):
    """Config keys of `rlher evaluate`."""

    episodes: int = setting(100, "number of episodes", low=1)


@dataclass
class EpisodeSourceConfig(PlayConfig):
    """Keys of the commands that can also play a controller: `rlher enjoy` and `collect`."""

    env: EnvConfig | None = setting(None, "environment of a controller, or of a dataset")
    controller: str | None = setting(None, "scripted (rlher's) or <module>:<function>; null: scripted if env is set")


@dataclass
class EnjoyConfig(EpisodeSourceConfig):
    """Config keys of `rlher enjoy`."""

    episodes: int | None = setting(None, "episodes; null: 6, or the cells of the grid", low=1)
    video: str | None = setting(None, ".mp4 or .gif to write; null: a window, or <run>/enjoy.mp4 without a display")
    grid: str = setting("auto", "episodes side by side in a video, such as 3x2; 1x1: one by one; auto: at most 3x2")
    width: int | None = setting(None, "video width in pixels; null: 480 a column, at most 1920", low=64, high=7680)


@dataclass
class ExportConfig(ModelChoiceConfig):
    """Config keys of `rlher export`."""

    output: str | None = setting(None, "folder to write; null: <run>/export")
    format: str = setting(
        "sb3", "sb3: Stable-Baselines3 model with script and card; onnx: an ONNX file as well", choices=("sb3", "onnx")
    )
    push: str | None = setting(None, "owner/name on the Hugging Face Hub to upload to; default name: <algo>-<env>")


@dataclass
class CollectConfig(EpisodeSourceConfig):
    """Config keys of `rlher collect`."""

    episodes: int = setting(100, "episodes to write", low=1)
    successes_only: bool = setting(False, "write only episodes that end in success")
    output: str = setting("demos", "dataset, if it ends with a version as demos/pick-v0; else folder of datasets")
    seed: int = with_default(EpisodeSourceConfig, "seed", 2_000_000)


@dataclass
class RunSelectionConfig:
    """Selection and grouping of runs."""

    runs: list[str] = setting(
        [], "runs, folders of runs, or (report) a study; NAME=folder names its curve; empty: `logs`", positional=True
    )
    logs: str = setting("logs", "folder of all runs")
    by: list[str] = setting([], "keys to group by; empty: algo, her and all other keys that differ")

    def named_folders(self) -> list[tuple[str, str]]:
        """Return each folder of ``runs``, or ``logs``, and its name, see :func:`split_named_folder`."""
        return [split_named_folder(word) for word in self.runs or [self.logs]]


def split_named_folder(word: str) -> tuple[str, str]:
    """Return the folder and the name of ``NAME=folder``. The name of a plain folder is empty.

    Both parts may contain ``=``. The folder is the longest part after a ``=`` that exists, or else everything after the
    first ``=``.
    """
    if os.path.exists(word) or "=" not in word:
        return word, ""
    parts = word.split("=")
    for n_name_parts in range(1, len(parts)):
        folder = "=".join(parts[n_name_parts:])
        if os.path.exists(folder):
            return folder, "=".join(parts[:n_name_parts])
    return "=".join(parts[1:]), parts[0]


@dataclass
class PlotConfig(RunSelectionConfig):
    """Config keys of `rlher plot`."""

    x: str = setting("steps", "horizontal axis", choices=("steps", "wall", "updates"))
    y: str = setting("success_rate", "column of evaluations.csv or progress.csv, such as mean_reward")
    output: list[str] = setting([], "files to write, .png, .pdf or .svg; empty: <y>.png and .pdf beside the runs")
    csv: str | None = setting(None, "CSV file to write the drawn numbers to")
    smooth: int = setting(1, "evaluations, or rows of progress.csv, in the running mean of each run", low=1)
    title: str | None = setting(None, "title of the figure; empty: no title; null: the environment of each panel")
    figsize: list[float] | None = setting(None, "width, height in inches; null: by the panels", low=0.5, length=2)
    style: str = setting("screen", "paper: width of a page or column, 8-point text", choices=("screen", "paper"))


@dataclass
class CompareConfig(RunSelectionConfig):
    """Config keys of `rlher compare`."""

    output: list[str] = setting([], "files to write, .tex, .csv, .md or .txt; empty: print the tables")
    format: str | None = setting(
        None, "null: by the name of a file, else text; csv: plain numbers", choices=("text", "markdown", "csv", "latex")
    )


@dataclass
class ReportConfig(RunSelectionConfig):
    """Config keys of `rlher report`."""

    output: str | None = setting(None, "page to write, .html; null: report.html beside the runs")
    title: str | None = setting(None, "title of the page; null: its environments")


@dataclass
class CheckConfig:
    """Config keys of `rlher check`."""

    env: EnvConfig = field(default_factory=EnvConfig)
    seed: int = setting(0, "seed of the episodes played", low=0, high=MAX_SEED)
    json: bool = setting(False, "print the findings as JSON on stdout")
    trust_code: bool = setting(False, "import the modules that an environment's file names")


@dataclass
class ListConfig:
    """Config keys of `rlher list`."""

    what: str | None = setting(
        None, "the list to print; null: all", choices=("algos", "envs", "strategies", "agents"), positional=True
    )
    json: bool = setting(False, "print JSON on stdout")
