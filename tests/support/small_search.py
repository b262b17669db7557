"""A search that takes seconds, as a command and as an objective in this process."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from rlher.config.algorithms import DQNConfig
from rlher.config.conf_files import read_env_config
from rlher.config.environment import EnvConfig
from rlher.config.training import EvalConfig
from rlher.config.tuning import OptimizeConfig
from rlher.tuning.search import Search
from rlher.tuning.search_space import SearchSpace, load_space
from rlher.tuning.trial_runner import TrialRunner
from tests.conftest import TINY, Outcome

ROOT = Path(__file__).parents[2]
BITS = (
    "algo=dqn",
    "env=BitFlipping-v0",
    "env.kwargs.n_bits=4",
    "recipe=null",
    *TINY,
    "total_timesteps=120",
    "eval.freq=40",
)
SMALL = (*BITS, "n_seeds=1", "rerun_best=1", "rerun_seeds=2")
STUDY = "logs/optuna/dqn-BitFlipping-v0-her"
"""Folder of the study of :data:`SMALL`."""
OPTIMIZE = (sys.executable, "-m", "rlher.cli.main", "optimize")


def run_optimize(folder: Path, *words: str) -> Outcome:
    """Run a small search in a folder."""
    done = subprocess.run([*OPTIMIZE, *SMALL, *words], cwd=folder, capture_output=True, text=True)
    return Outcome(done.returncode, done.stdout, done.stderr)


def bit_flipping(n_bits: int = 4) -> EnvConfig:
    return replace(read_env_config("BitFlipping-v0"), kwargs={"n_bits": n_bits}, max_episode_steps=n_bits)


def small_search(folder: Path, n_seeds: int, **keys: Any) -> Search:
    """Return a tiny search for this process."""
    config = OptimizeConfig(
        algo=DQNConfig(name="dqn", batch_size=16, net_arch=[16], learning_starts=40),
        env=bit_flipping(),
        total_timesteps=120,
        n_seeds=n_seeds,
        eval=EvalConfig(freq=40, episodes=2),
    )
    return Search(replace(config, **keys), load_space("her", config.baseline), folder, command_line="")


def run_here(study: optuna.Study, runner: TrialRunner, n_trials: int, space: SearchSpace | None = None) -> None:
    """Run trials in this process, by default in the space of the search."""
    for _ in range(n_trials):
        trial = study.ask(space or runner.search.space)
        try:
            value, score = runner.run_trial(trial)
            for name, entry in score._asdict().items():
                trial.set_user_attr(name, entry)
            study.tell(trial, value)
        except optuna.TrialPruned:
            study.tell(trial, state=TrialState.PRUNED)
