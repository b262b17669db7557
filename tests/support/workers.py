"""Studies with trials of no cost, for workers in separate processes."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from optuna.distributions import FloatDistribution
from optuna.study import Study
from optuna.trial import Trial, TrialState

from rlher.config.tuning import OptimizeConfig
from rlher.jobs.job_pool import JobPool
from rlher.tuning.scoring import Score
from rlher.tuning.search import Search
from rlher.tuning.study_storage import BASELINE_ATTRIBUTE, open_storage, open_study
from rlher.tuning.trial_runner import TrialRunner
from rlher.tuning.trial_source import TrialSource
from rlher.tuning.trials import counted_trials

BLOCK = "RLHER_TEST_BLOCK"
"""Environment variable that makes every trial of a process block."""
TOTAL = 5


@dataclass(frozen=True)
class QuadraticTrialRunner(TrialRunner):
    """A study whose trials last ``seconds``, and start once ``together`` workers have started one.

    Trial ``blocks`` writes its process id to the file ``blocked`` and waits to be killed; trial ``fails`` raises.
    """

    seconds: float = 0.05
    blocks: int = -1
    fails: int = -1
    together: int = 1

    def run_trial(self, trial: Trial) -> tuple[float, Score]:
        (self.search.folder / f"{os.getpid()}.pid").touch()
        while len(list(self.search.folder.glob("*.pid"))) < self.together:
            time.sleep(0.05)
        x = trial.params["x"]
        if trial.number == self.blocks or BLOCK in os.environ:
            (self.search.folder / "blocked").write_text(str(os.getpid()))
            time.sleep(600)
        if trial.number == self.fails:
            raise ZeroDivisionError("on purpose")
        time.sleep(self.seconds)
        trial.report(x, 0)
        return -x * x, Score(-x * x, auc=0, steps=1, mean_reward=0, share_at_target=0, seconds=0)


def new_study(
    folder: Path, storage: str | None = None, heartbeat: int = 60, **options: object
) -> tuple[Study, TrialRunner]:
    """Return a new study of :data:`TOTAL` trials whose baseline is x = 3, and what its trials need."""
    config = OptimizeConfig(storage=storage, heartbeat=heartbeat, pruner="none", sampler="random")
    opened = open_storage(storage, folder, heartbeat)
    study, _ = open_study(opened, "quadratic", {"n": 1}, {"x": 3.0})
    space = {"x": FloatDistribution(-10, 10)}
    return study, QuadraticTrialRunner(Search(config, space, folder, ""), "quadratic", **options)  # type: ignore[arg-type]


def run_trials(study: Study, runner: TrialRunner, workers: int, total: int = TOTAL) -> None:
    """Run the trials of a study without showing progress."""
    with JobPool(replace(runner.search.config, workers=workers, progress=False), ray_retries=0) as pool:
        pool.run(TrialSource(study, runner, total, "quadratic"))


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition was not met within {seconds} s"
        time.sleep(0.05)


def require_complete(study: Study) -> None:
    """Assert that all trials of the total completed, the baseline once."""
    trials = counted_trials(study)
    states = [(trial.number, trial.state.name, trial.user_attrs) for trial in study.get_trials(deepcopy=False)]
    assert len(trials) == TOTAL, states
    assert all(trial.state is TrialState.COMPLETE for trial in trials), states
    # Trial 0, or its retry if its worker was killed.
    assert sum(trial.params == {"x": 3.0} and BASELINE_ATTRIBUTE in trial.user_attrs for trial in trials) == 1
