"""Config keys of `rlher optimize`."""

from dataclasses import dataclass

from rlher.config.key import key
from rlher.config.training import TrainConfig


@dataclass
class OptimizeConfig(TrainConfig):
    """Config keys of `rlher optimize`: those of a training run, for every trial, and those of the search."""

    n_trials: int = key(100, "trials of the study, summed over all workers", low=1, affects="experiment")
    search_space: str = key(
        "her",
        "her, her_wide, algo, full, several joined by +, or a YAML file; space= is short for it",
        affects="experiment",
    )
    objective: str = key(
        "success",
        "objective to maximise; auc: area under the success curve; multi: also minimise steps to 90 %",
        choices=("success", "auc", "multi"),
        affects="experiment",
    )
    n_seeds: int = key(2, "training runs per trial, each with its own seed", low=1, affects="experiment")
    sampler: str = key("tpe", "Optuna sampler", choices=("tpe", "random", "cmaes"), affects="experiment")
    pruner: str = key(
        "median",
        "Optuna pruner, which stops bad trials early",
        choices=("median", "hyperband", "none"),
        affects="experiment",
    )
    study_name: str | None = key(
        None, "name of the study; null: composed of algorithm, environment and search space", affects="output"
    )
    storage: str | None = key(
        None, "sqlite:///..., postgresql://..., mysql://...; null: a journal file under `logs`", affects="machine"
    )
    heartbeat: int = key(
        60,
        "seconds between heartbeats in a database; twice that without one: the worker is dead",
        low=1,
        affects="machine",
    )
    workers: int = key(1, "worker processes of this command", low=1, affects="machine")
    launcher: str = key(
        "local", "workers as local processes or as tasks of a Ray cluster", choices=("local", "ray"), affects="machine"
    )
    ray_address: str | None = key(
        None, "head of the Ray cluster, host:port; null: a cluster on this machine", affects="machine"
    )
    rerun_best: int = key(3, "number of best trials that are trained again at the end", low=1, affects="experiment")
    rerun_seeds: int = key(5, "number of fresh seeds for each of them and for trial 0", low=2, affects="experiment")
    progress: bool = key(True, "show a table of trials; a line per trial if stderr is not a terminal", affects="output")
