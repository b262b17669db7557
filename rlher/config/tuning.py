"""Config keys of many training runs: of a sweep, and of `rlher optimize`."""

from dataclasses import dataclass, fields
from typing import NamedTuple

from rlher.config.key import experiment_key, runtime_key
from rlher.config.training import TrainConfig


@dataclass
class WorkersConfig(TrainConfig):
    """Config keys of `rlher train`: the keys of a training run, and the workers of a sweep."""

    workers: int = runtime_key(1, "worker processes; of `rlher train` with -m only: runs side by side", low=1)
    launcher: str = runtime_key(
        "local", "workers as local processes or as tasks of a Ray cluster", choices=("local", "ray")
    )
    ray_address: str | None = runtime_key(
        None, "head of the Ray cluster, host:port; null: a cluster on this machine", from_file=False
    )


class SweepJob(NamedTuple):
    """A run that a sweep asks for.

    :param name: its overrides that other runs of the sweep do not have: ``seed=3``.
    :param command: the command line of this run alone.
    """

    name: str
    command: str
    config: WorkersConfig


def train_config(config: WorkersConfig) -> TrainConfig:
    """Return the keys of a training run."""
    return TrainConfig(**{item.name: getattr(config, item.name) for item in fields(TrainConfig)})


@dataclass
class OptimizeConfig(WorkersConfig):
    """Config keys of `rlher optimize`: the keys of each trial's training run, and the keys of the search."""

    n_trials: int = experiment_key(100, "trials of the study, summed over all workers", low=1)
    search_space: str = experiment_key(
        "her", "her, her_wide, algo, full, several joined by +, or a YAML file; space= is short for it"
    )
    objective: str = experiment_key(
        "success",
        "what to maximise; auc: area under the success curve; seconds: minimise the seconds to 90 %",
        choices=("success", "auc", "seconds"),
    )
    time_limit: float = experiment_key(600.0, "objective=seconds: seconds of a trial's run; it ends at 90 %", low=1)
    n_seeds: int = experiment_key(2, "training runs per trial, each with its own seed", low=1, high=1000)
    sampler: str = experiment_key("tpe", "Optuna sampler", choices=("tpe", "random"))
    pruner: str = experiment_key(
        "median", "Optuna pruner, which stops bad trials early", choices=("median", "hyperband", "none")
    )
    study_name: str | None = runtime_key(None, "name of the study; null: from algorithm, environment and space")
    storage: str | None = runtime_key(
        None, "sqlite:///..., postgresql://...; null: a journal file under `logs`", from_file=False
    )
    heartbeat: int = runtime_key(
        30, "seconds between heartbeats of a command; its trials run again after twice that without one", low=1
    )
    rerun_best: int = experiment_key(3, "number of best trials that are trained again at the end", low=1)
    rerun_seeds: int = experiment_key(5, "number of fresh seeds for each of them and for trial 0", low=2, high=1000)
    progress: bool = runtime_key(True, "show a table of trials; a line per trial if stderr is not a terminal")
