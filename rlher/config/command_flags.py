"""Config keys of all commands except `rlher train` and `optimize`. Each key is a flag of its command."""

from dataclasses import dataclass

from rlher.config.environment import EnvConfig
from rlher.config.key import MAX_SEED, config_key, section, with_default


@dataclass
class ModelConfig:
    """Keys that choose a run and one of its models."""

    run: str | None = config_key(None, "run folder, model file, or (enjoy) dataset; null: newest run", positional=True)
    logs: str = config_key("logs", "folder of all runs")
    model: str = config_key("auto", "model of the run: best, last, or steps of eval.keep_models; auto: best or last")
    json: bool = config_key(False, "print the result as JSON on stdout")
    trust_code: bool = config_key(False, "run the code that the config.yaml of somebody else's run names")


@dataclass
class PlayConfig(ModelConfig):
    """Keys of the commands that play episodes: `rlher evaluate`, `enjoy` and `collect`."""

    agent: str | None = config_key(None, "pretrained agent (`rlher list agents`)")
    seed: int = config_key(1_000_000, "seed of the first episode; the next ones count up", low=0, high=MAX_SEED)
    deterministic: bool = config_key(True, "deterministic actions; --no-deterministic: sampled actions")
    device: str = config_key("cpu", "torch device")


@dataclass
class EvaluateConfig(PlayConfig):
    """Config keys of `rlher evaluate`."""

    episodes: int = config_key(100, "number of episodes", low=1)


@dataclass
class EpisodeSourceConfig(PlayConfig):
    """Keys of the commands that can also play a controller: `rlher enjoy` and `collect`."""

    env: EnvConfig | None = config_key(None, "environment of a controller, or of a dataset")
    controller: str | None = config_key(None, "scripted (rlher's) or <module>:<function>; null: scripted if env is set")


@dataclass
class EnjoyConfig(EpisodeSourceConfig):
    """Config keys of `rlher enjoy`."""

    episodes: int | None = config_key(None, "episodes; null: 6, or the cells of the grid", low=1)
    video: str | None = config_key(None, ".mp4 or .gif to write; null: a window, or <run>/enjoy.mp4 without a display")
    grid: str = config_key("auto", "episodes side by side in a video, such as 3x2; 1x1: one by one; auto: at most 3x2")
    width: int | None = config_key(None, "video width in pixels; null: 480 a column, at most 1920", low=64, high=7680)
    captions: bool = config_key(True, "caption each episode with its number, step, distance and outcome")


@dataclass
class ExportConfig(ModelConfig):
    """Config keys of `rlher export`."""

    output: str | None = config_key(None, "folder to write; null: <run>/export")
    format: str = config_key(
        "sb3", "sb3: Stable-Baselines3 model with script and card; onnx: an ONNX file as well", choices=("sb3", "onnx")
    )
    push: str | None = config_key(None, "owner/name on the Hugging Face Hub to upload to; default name: <algo>-<env>")


@dataclass
class CollectConfig(EpisodeSourceConfig):
    """Config keys of `rlher collect`."""

    episodes: int = config_key(100, "episodes to write", low=1)
    successes_only: bool = config_key(False, "write only episodes that end in success")
    output: str = config_key("demos", "dataset, if it ends with a version as demos/pick-v0; else folder of datasets")
    seed: int = with_default(EpisodeSourceConfig, "seed", 2_000_000)


@dataclass
class RunsConfig:
    """Selection and grouping of runs."""

    runs: list[str] = config_key(
        [], "runs, folders of runs, or (report) a study; NAME=folder names its curve; empty: `logs`", positional=True
    )
    logs: str = config_key("logs", "folder of all runs")
    by: list[str] = config_key([], "keys to group by; empty: algo, her and all other keys that differ")


@dataclass
class PlotConfig(RunsConfig):
    """Config keys of `rlher plot`."""

    x: str = config_key("steps", "horizontal axis", choices=("steps", "wall", "updates"))
    y: str = config_key("success_rate", "column of evaluations.csv or progress.csv, such as mean_reward")
    output: list[str] = config_key([], "files to write, .png, .pdf or .svg; empty: <y>.png and .pdf beside the runs")
    csv: str | None = config_key(None, "CSV file to write the drawn numbers to")
    smooth: int = config_key(1, "evaluations, or rows of progress.csv, in the running mean of each run", low=1)
    title: str | None = config_key(None, "title of the figure; empty: no title; null: the environment of each panel")
    figsize: list[float] | None = config_key(None, "width, height in inches; null: by the panels", low=0.5, length=2)
    style: str = config_key("screen", "paper: width of a page or column, 8-point text", choices=("screen", "paper"))


@dataclass
class CompareConfig(RunsConfig):
    """Config keys of `rlher compare`."""

    output: list[str] = config_key([], "files to write, .tex, .csv, .md or .txt; empty: print the tables")
    format: str | None = config_key(
        None, "null: by the name of a file, else text; csv: plain numbers", choices=("text", "markdown", "csv", "latex")
    )


@dataclass
class ReportConfig(RunsConfig):
    """Config keys of `rlher report`."""

    output: str | None = config_key(None, "page to write, .html; null: report.html beside the runs")
    title: str | None = config_key(None, "title of the page; null: its environments")


@dataclass
class CheckConfig:
    """Config keys of `rlher check`."""

    env: EnvConfig = section(EnvConfig, "environment", default_name="parking-v0")
    seed: int = config_key(0, "seed of the episodes played", low=0, high=MAX_SEED)
    json: bool = config_key(False, "print the findings as JSON on stdout")
    trust_code: bool = config_key(False, "import the modules that an environment's file names")


@dataclass
class ListConfig:
    """Config keys of `rlher list`."""

    what: str | None = config_key(
        None, "the list to print; null: all", choices=("algos", "envs", "strategies", "agents"), positional=True
    )
    json: bool = config_key(False, "print JSON on stdout")
