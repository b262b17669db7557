"""Config keys of `rlher optimize`."""

from dataclasses import dataclass

from rlher.config.key import setting
from rlher.config.training import DEFAULT_N_EVALUATIONS, RunConfig, TrainConfig
from rlher.core.errors import UserError

OBJECTIVES = {"success": "success rate", "auc": "area under the success curve", "seconds": "seconds saved until 90 %"}
"""What a study maximises, by ``objective``. Each key is a field of :class:`rlher.tuning.scoring.Score`."""

NOT_IN_STUDY = {"seed", "eval.seed", "checkpoint.freq"}
"""Parameters in which two commands that share a study may differ."""

NOT_IN_RECIPE = NOT_IN_STUDY | {"env.name", "demos.path", "init_from"}
"""Parameters that the recipe of a search does not hold; the last three name things."""

PASSWORD_KEYS = ("password", "passwd", "sslpassword")
"""Keys in the address of a database whose value is a password."""


@dataclass
class OptimizeConfig(TrainConfig):
    """Config keys of `rlher optimize`: the keys of each trial's training run, and the keys of the search."""

    n_trials: int = setting(100, "trials of the study, summed over all workers", low=1)
    space: str = setting("her", "search space: her, her_wide, algo, several with +, or a YAML file")
    objective: str = setting(
        "success", "what to maximise; auc: mean success; seconds: left of time_limit at 90 %", choices=tuple(OBJECTIVES)
    )
    time_limit: float = setting(600.0, "objective=seconds: seconds of a trial's run; it ends at 90 %", low=1)
    n_seeds: int = setting(2, "training runs per trial, each with its own seed", low=1, high=1000)
    sampler: str = setting("tpe", "Optuna sampler", choices=("tpe", "random"))
    pruner: str = setting("median", "Optuna pruner; it stops bad trials", choices=("median", "hyperband", "none"))
    study_name: str | None = setting(None, "name of the study; null: from algorithm, environment and space")
    storage: str | None = setting(None, "sqlite:///..., postgresql://...; null: a file, study.db")
    heartbeat: int = setting(
        30, "seconds between heartbeats of a command; its trials run again after two without one", low=1
    )
    rerun_best: int = setting(3, "number of best trials that are trained again at the end", low=1)
    rerun_seeds: int = setting(5, "number of fresh seeds for each of them and for trial 0", low=2, high=1000)
    progress: bool = setting(True, "show a table of trials; a line per trial if stderr is not a terminal")

    @property
    def baseline(self) -> RunConfig:
        """Config of trial 0, with which candidates are compared. A trial changes keys of the search space."""
        return self.for_parallel_run()

    @property
    def n_evaluations(self) -> int:
        """Number of evaluations of a trial's run."""
        return self.total_timesteps // self.eval.freq if self.eval.freq else DEFAULT_N_EVALUATIONS

    def validate(self) -> None:
        """Raise UserError if trials are shorter than the time to their first evaluation, or for an invalid storage."""
        super().validate()
        freq = self.eval.freq or 1
        if freq > self.total_timesteps:
            problem = f"eval.freq={freq} is more than total_timesteps={self.total_timesteps}"
            raise UserError(f"{problem}, so no trial would be evaluated; use a smaller eval.freq, or eval.freq=null.")
        if self.storage is not None:
            _require_address_without_password(self.storage)


def _require_address_without_password(storage: str) -> None:
    """Raise UserError unless a text is the address of a database without a password, which would be recorded.

    The messages do not quote the text.
    """
    from sqlalchemy.engine import make_url  # takes a tenth of a second

    try:
        address = make_url(storage)
    except Exception:  # an error of SQLAlchemy, or ValueError for a port that is no number
        raise UserError("storage= is not the address of a database, such as sqlite:///study.db.") from None
    if address.password is not None or any(name.lower() in PASSWORD_KEYS for name in address.query):
        raise UserError("storage= has a password, which would be recorded; put it into ~/.pgpass or PGPASSWORD.")
