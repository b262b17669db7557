"""Trials in this process: pruning, seeds of repeated proposals, time limit."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from optuna.distributions import IntDistribution
from optuna.trial import FrozenTrial, TrialState

from rlher.config.training import EngineConfig, EvalConfig
from rlher.core.errors import RunError, UserError
from rlher.tuning.reruns import BASELINE, RERUN_SEED, RerunRunner, queue_reruns
from rlher.tuning.scoring import SCORE_KEYS, has_score
from rlher.tuning.study_storage import open_storage, open_study
from rlher.tuning.trial_runner import TrialRunner
from rlher.tuning.trial_source import fail_and_retry
from rlher.tuning.trials import counted_trials, rank_trials
from tests.support.small_search import run_here, small_search


def test_the_baseline_is_never_pruned(tmp_path: Path) -> None:
    """A pruned run ends in the step of its evaluation, also if that is played in another process."""
    evaluation = EvalConfig(freq=40, episodes=2, workers=1, keep_models=True)
    search = small_search(tmp_path, n_seeds=2, eval=evaluation)
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=2.0))
    study.enqueue_trial(search.baseline_params, user_attrs={"baseline": True})
    run_here(study, TrialRunner(search, "small"), 2)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE, TrialState.PRUNED]
    first, second = study.trials
    assert (len(first.intermediate_values), len(second.intermediate_values)) == (6, 1)
    assert set(SCORE_KEYS) <= set(first.user_attrs)
    assert (has_score(first), has_score(second)) == (True, False)
    (result,) = tmp_path.glob("trials/1/dqn/*/result.json")
    assert json.loads(result.read_text())["timesteps"] == 40
    assert not list(tmp_path.rglob("*.zip")), "trials keep no models"


def test_repeated_proposal_trains_other_seeds(tmp_path: Path) -> None:
    search = small_search(tmp_path, n_seeds=2)
    study = optuna.create_study(direction="maximize")
    study.enqueue_trial(search.baseline_params, user_attrs={"baseline": True})
    study.enqueue_trial(search.baseline_params)
    run_here(study, TrialRunner(search, "small"), 2)
    seeds = [yaml.safe_load(path.read_text())["seed"] for path in tmp_path.rglob("config.yaml")]
    assert sorted(seeds) == [0, 1, 2, 3]
    assert [trial.number for trial in rank_trials(study, search.space)] == [0], "both are one entry"


def test_a_run_without_evaluation_has_no_score(tmp_path: Path) -> None:
    stop = {"stable_baselines3.common.callbacks:StopTrainingOnMaxEpisodes": {"max_episodes": 1}}
    runner = TrialRunner(small_search(tmp_path, n_seeds=1, callbacks=[stop]), "small")
    with pytest.raises(RunError):
        run_here(optuna.create_study(), runner, 1)


def test_parameters_outside_of_the_space_are_not_trained(tmp_path: Path) -> None:
    search = small_search(tmp_path, n_seeds=1)
    name = "her.n_sampled_goal"
    study = optuna.create_study()
    study.enqueue_trial({name: 999})
    with pytest.raises(UserError):
        run_here(study, TrialRunner(search, "small"), 1, search.space | {name: IntDistribution(0, 1000)})
    assert not list(tmp_path.iterdir())


def test_a_run_ends_at_its_time_limit(tmp_path: Path) -> None:
    runner = TrialRunner(small_search(tmp_path, n_seeds=1, objective="seconds", time_limit=1e-3), "small")
    study = optuna.create_study()
    run_here(study, runner, 1)
    assert study.trials[0].state is TrialState.COMPLETE
    assert -1e-3 <= study.trials[0].value <= 0
    (table,) = tmp_path.rglob("evaluations.csv")
    assert len(table.read_text().splitlines()) == 2, "one evaluation"


def test_only_candidates_are_trained_again(tmp_path: Path) -> None:
    search = small_search(tmp_path, n_seeds=1, seed=7, rerun_seeds=1)
    storage = optuna.storages.InMemoryStorage()
    queue_reruns(storage, {"2": {**search.baseline_params, "her.n_sampled_goal": 2}}, search)
    study = queue_reruns(storage, {BASELINE: search.baseline_params}, search)
    run_here(study, RerunRunner(search, study.study_name), 2)
    assert [trial.state for trial in study.trials] == [TrialState.PRUNED, TrialState.COMPLETE, TrialState.PRUNED]
    (file,) = tmp_path.rglob("config.yaml")
    assert yaml.safe_load(file.read_text())["seed"] == 1_000_007


def test_commands_that_queue_reruns_at_once_train_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = small_search(tmp_path, n_seeds=1, rerun_seeds=2)
    candidates = {BASELINE: search.baseline_params}
    opened = [open_storage(None, tmp_path, 30) for _ in range(2)]
    open_study(opened[0], f"{tmp_path.name}-rerun", {"reruns": True})
    reads = threading.Barrier(2)
    threads_that_read: set[int] = set()
    get_trials = optuna.Study.get_trials

    def read_and_wait(*args: Any, **options: Any) -> list[FrozenTrial]:
        trials = get_trials(*args, **options)
        if threading.get_ident() not in threads_that_read:
            threads_that_read.add(threading.get_ident())
            reads.wait(60)
        return trials

    with ThreadPoolExecutor(2) as threads, monkeypatch.context() as patch:
        patch.setattr(optuna.Study, "get_trials", read_and_wait)
        study, _ = threads.map(lambda storage: queue_reruns(storage, candidates, search), opened)
    assert len(study.trials) == 4
    study.ask(search.space)  # another command lost it
    fail_and_retry(study, study.trials[0])
    run_here(study, RerunRunner(search, study.study_name), 2)
    completed = [trial.user_attrs[RERUN_SEED] for trial in study.trials if trial.state is TrialState.COMPLETE]
    assert sorted(completed) == [0, 1]
    assert [trial.state for trial in counted_trials(study)].count(TrialState.PRUNED) == 2
    queue_reruns(opened[1], candidates, search)
    assert all(trial.state.is_finished() for trial in study.trials), "nothing is queued again"


@pytest.mark.slow
def test_losses_are_compiled_once_a_worker(tmp_path: Path) -> None:
    search = small_search(tmp_path, n_seeds=2, engine=EngineConfig(compile="on"))
    import torch._dynamo  # takes a second
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    graphs = []
    for n_sampled_goal in (2, 4):
        study = optuna.create_study()
        study.enqueue_trial({**search.baseline_params, "her.n_sampled_goal": n_sampled_goal})
        TrialRunner(search, "small").run_trial(study.ask(search.space))
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[0] > 0
    assert graphs[1] == graphs[0]
