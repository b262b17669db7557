"""`rlher optimize` as a command: mistakes, joining, Ctrl-C, resuming."""

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import optuna
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from rlher.config.tuning import OptimizeConfig
from rlher.envs import contract
from rlher.jobs.job_pool import JobPool
from rlher.tuning import outputs
from rlher.tuning.reruns import BASELINE, RERUN_SEED, queue_reruns, select_candidates
from rlher.tuning.search import Search
from rlher.tuning.search_space import SearchSpace
from rlher.tuning.study_storage import open_storage
from rlher.tuning.trial_source import TrialSource
from rlher.tuning.trials import counted_trials
from tests.support.small_search import OPTIMIZE, SMALL, STUDY
from tests.support.workers import wait_for

MISTAKES = [  # arguments, what the message names
    (("--n-trials", "0"), "n_trials=0"),
    (("--space", "mine.yaml"), "mine.yaml"),
    (("eval.freq=500",), "eval.freq=500"),
    (("algo.kwargs.frobnicate=1",), "frobnicate"),
    (("launcher=ray", "ray_address=head:6379"), "--storage"),
]


@pytest.mark.parametrize(("words", "named"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_mistake_is_refused_before_the_first_trial(rlher, tmp_path: Path, words: tuple[str, ...], named: str) -> None:
    (tmp_path / "mine.yaml").write_text("total_timesteps: {low: 10, high: 20}\n")
    done = rlher("optimize", *SMALL, *words)
    assert (done.code, named in done.err) == (2, True)
    assert not list(tmp_path.rglob("config.yaml")), "no trial was run"


SPACE: SearchSpace = {"her.n_steps": IntDistribution(1, 8)}
DEFAULTS = {"her.n_steps": 1}
PARAMS = {"her.n_sampled_goal": 2, "her.goal_selection_strategy": "final"}
SCORED = {
    "success": 1.0,
    "auc": 0.5,
    "steps": 100.0,
    "mean_reward": -3.0,
    "share_at_target": 1.0,
    "seconds": 9.0,
}


def stored(params: dict, space: SearchSpace) -> FrozenTrial:
    """Return a completed trial as rlher stores one."""
    return optuna.create_trial(value=1.0, params=params, user_attrs=SCORED, distributions=space)


@pytest.mark.parametrize("params", [{}, {**DEFAULTS, "env.id": "evil:Env"}, {"her.n_steps": 99}, {"her.n_steps": [1]}])
def test_parameters_of_another_program_are_ignored(params: dict) -> None:
    study = optuna.create_study()
    study.add_trial(stored(params, {key: CategoricalDistribution([value]) for key, value in params.items()}))
    assert select_candidates(study, Search(OptimizeConfig(), SPACE, Path(), "")) == {BASELINE: DEFAULTS}


def test_missing_and_failed_reruns_are_queued() -> None:
    storage = optuna.storages.InMemoryStorage()
    search = Search(OptimizeConfig(rerun_seeds=3), SPACE, Path("search"), "")
    study = queue_reruns(storage, {BASELINE: DEFAULTS}, search)
    study.tell(study.ask(SPACE), 1.0)
    study.tell(study.ask(SPACE), state=TrialState.FAIL)
    for _ in range(2):
        queue_reruns(storage, {BASELINE: DEFAULTS}, search)
        waiting = study.get_trials(states=[TrialState.WAITING])
        assert [trial.user_attrs[RERUN_SEED] for trial in waiting] == [2, 1]


def test_another_search_is_refused(rlher, monkeypatch: pytest.MonkeyPatch) -> None:
    studies = []

    def stop(_: JobPool, jobs: TrialSource) -> None:
        jobs.study.add_trial(stored(PARAMS, jobs._runner.search.space))
        studies.append(jobs.study)
        raise KeyboardInterrupt

    monkeypatch.setattr(JobPool, "run", stop)
    monkeypatch.setattr(outputs, "_write_plots", lambda *_: None)  # a second for each command
    assert rlher("optimize", *SMALL).code == 130
    assert list(pd.read_csv(Path(STUDY, "trials.csv")).state) == ["WAITING", "COMPLETE"], "written after Ctrl-C, too"
    assert "n_sampled_goal: 2" in Path(STUDY, "best.yaml").read_text()
    for word, key in (("space=her_wide", "space="), ("env.kwargs.n_bits=5", "n_bits")):
        done = rlher("optimize", *SMALL, word, f"study_name={Path(STUDY).name}")
        assert done.code == 2
        assert key in done.err
        assert "--study-name" in done.err
    assert rlher("optimize", *SMALL, "algo=rlher.algos.dqn:DQN").code == 130, "a class of the user, with its own study"
    assert len(studies) == 2
    probed = contract.with_probed_properties
    monkeypatch.setattr(contract, "with_probed_properties", lambda *_: replace(probed(*_), success_key="other"))
    monkeypatch.setattr(contract, "CHECKS", ())
    assert rlher("optimize", *SMALL).code == 130, "what is probed does not identify a study"
    assert rlher("optimize", *SMALL, "ray_address=head:6379").code == 130, "without effect, as Ray is not the launcher"


def test_ctrl_c_in_the_reruns_keeps_an_older_comparison(rlher, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_in_the_reruns(_: JobPool, jobs: TrialSource) -> None:
        if jobs.total == 4:
            raise KeyboardInterrupt
        jobs.study.add_trial(stored(PARAMS, jobs._runner.search.space))

    monkeypatch.setattr(JobPool, "run", stop_in_the_reruns)
    for name in ("best.yaml", "verdict.json"):
        path = Path(STUDY, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    done = rlher("optimize", *SMALL)
    assert done.code == 130
    assert "0 of 4 trials" in done.err
    assert Path(STUDY, "best.yaml").read_text() == "{}"


@pytest.mark.slow
def test_search_resumes_after_all_processes_were_killed(rlher, tmp_path: Path) -> None:
    words = [*OPTIMIZE, *SMALL, "--n-trials", "2", "total_timesteps=300"]
    with (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(words, cwd=tmp_path, start_new_session=True, stderr=stderr, stdout=stderr)
    wait_for(lambda: list((tmp_path / STUDY).glob("trials/1/dqn/*/evaluations.csv")), 120)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = rlher("optimize", *SMALL, "--n-trials", "2", "total_timesteps=300", "--heartbeat", "2")
    assert done.code == 0, done.err
    trials = pd.read_csv(tmp_path / STUDY / "trials.csv")
    assert list(trials.number) == [0, 2], "only the running trial was lost"


@pytest.mark.slow
def test_ctrl_c_queues_the_running_trial(tmp_path: Path) -> None:
    words = [*OPTIMIZE, *SMALL, "total_timesteps=50000", "--n-trials", "2"]
    process = subprocess.Popen(words, cwd=tmp_path, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for(lambda: list((tmp_path / STUDY).glob("trials/0/dqn/*/evaluations.csv")), 120)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "0 of 2 trials" in stderr
    assert "Traceback" not in stderr
    storage = open_storage(None, tmp_path / STUDY, 30)
    study = optuna.load_study(storage=storage, study_name="dqn-BitFlipping-v0-her")
    assert [trial.state for trial in counted_trials(study)] == [TrialState.WAITING]
