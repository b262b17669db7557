"""Studies whose trials cost nothing, for workers in processes of their own."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from optuna.study import Study, StudyDirection
from optuna.trial import Trial, TrialState

from rlher.config.tuning import OptimizeConfig
from rlher.tuning.shared_study import BASELINE, counted, open_study, queue_again
from rlher.tuning.storage import open_storage
from rlher.tuning.worker import Order

STUCK = "RLHER_TEST_STUCK"


@dataclass(frozen=True)
class Quadratic:
    """A trial that takes ``seconds`` and waits until ``together`` workers are at it.

    The one numbered ``stuck`` says who runs it and waits to be killed; the one numbered ``fails`` raises.
    """

    folder: Path
    seconds: float = 0.05
    stuck: int = -1
    fails: int = -1
    together: int = 1

    def __call__(self, trial: Trial) -> float:
        (self.folder / f"{os.getpid()}.pid").touch()
        while len(list(self.folder.glob("*.pid"))) < self.together:
            time.sleep(0.05)
        x = trial.suggest_float("x", -10, 10)
        if trial.number == self.stuck or STUCK in os.environ:
            (self.folder / "stuck").write_text(str(os.getpid()))
            time.sleep(600)
        if trial.number == self.fails:
            raise ZeroDivisionError("a bug of ours")
        time.sleep(self.seconds)
        trial.report(x, 0)
        for name in ("success", "auc", "steps", "mean_reward"):
            trial.set_user_attr(name, -x * x)
        return -x * x


def new_study(folder: Path, storage: str | None = None, heartbeat: int = 60, **options: object) -> tuple[Study, Order]:
    config = OptimizeConfig(storage=storage, heartbeat=heartbeat, pruner="none", sampler="random")
    opened = open_storage(storage, folder, heartbeat, queue_again)
    study, _ = open_study(opened, "quadratic", [StudyDirection.MAXIMIZE], {"n": 1}, [{"x": 3.0}])
    return study, Order(config, "quadratic", 8, Quadratic(folder, **options), folder, (0,))  # type: ignore[arg-type]


def quietly() -> None:
    pass


def wait_for(what: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def require_total(study: Study, total: int) -> None:
    trials = counted(study)
    states = [(trial.number, trial.state.name, trial.user_attrs) for trial in study.get_trials(deepcopy=False)]
    assert len(trials) == total, states
    assert all(trial.state is TrialState.COMPLETE for trial in trials), states
    # Trial 0, or what took its place where its worker was killed.
    assert sum(trial.params == {"x": 3.0} and BASELINE in trial.user_attrs for trial in trials) == 1, "the recipe"
