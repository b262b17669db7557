"""Config keys of `rlher optimize`."""

from dataclasses import dataclass

from rlher.config.key import key
from rlher.config.training import TrainConfig


@dataclass
class OptimizeConfig(TrainConfig):
    """`rlher optimize`: a training run's keys, for every trial, and those of the search."""

    n_trials: int = key(100, "trials of the study in all, whoever runs them", low=1)
    search_space: str = key("her", "(or space) her, her_wide, algo, full, several joined by +, or a YAML file")
    objective: str = key("success", "what is maximised; multi: success and steps", choices=("success", "auc", "multi"))
    n_seeds: int = key(2, "training runs a trial, one seed each", low=1)
    sampler: str = key("tpe", "how trials are proposed", choices=("tpe", "random", "cmaes"))
    pruner: str = key("median", "which trials are cut short", choices=("median", "hyperband", "none"))
    study_name: str | None = key(None, "name of the study; null: made of algorithm, environment and space")
    storage: str | None = key(None, "sqlite:///..., postgresql://..., mysql://...; null: a journal file in `logs`")
    heartbeat: int = key(60, "seconds between signs of life in a database; after twice that a worker is dead", low=1)
    workers: int = key(1, "processes of this command", low=1)
    launcher: str = key(
        "local", "where workers run: processes here, or tasks of a Ray cluster", choices=("local", "ray")
    )
    ray_address: str | None = key(None, "head of the Ray cluster, host:port; null: a cluster of this machine alone")
    rerun_best: int = key(3, "best trials that are run again at the end", low=1)
    rerun_seeds: int = key(5, "fresh seeds of each, and of trial 0", low=2)
    progress: bool = key(True, "a table while it runs; a line per trial where stderr is no terminal")
