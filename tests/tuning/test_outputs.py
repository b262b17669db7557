"""Results of a finished search: files, recipe, table, and the conclusion about the baseline."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
import yaml

from rlher.tuning.outputs import write_results
from rlher.tuning.reruns import BASELINE, RERUN_SEED_OFFSET, candidate_json
from rlher.tuning.scoring import Score
from tests.support.small_search import SMALL, STUDY, small_search


def candidates(gain: tuple, **params: int) -> list[dict]:
    """Return a trial and the baseline with this difference, best first; the baseline never reached 90 %."""
    trial = candidate_json("trial 3", params, [Score(rate, 0.5, 80, -1, 1, 9) for rate in (1.0, 0.9)], gain)
    baseline = candidate_json(BASELINE, {}, [Score(0.5, 0.2, 120, -1, 0, 9)] * 2, (0.0, 0.0, 0.0))
    return sorted([trial, baseline], key=lambda candidate: candidate["gain"][0], reverse=True)


@pytest.mark.parametrize(
    ("gain", "is_better"),
    [((0.4, 0.1, 0.7), True), ((0.4, -np.inf, np.inf), False), ((-0.4, -0.7, -0.1), False)],
)
def test_recipe_is_recommended_only_if_it_is_better(tmp_path: Path, gain: tuple, is_better: bool) -> None:
    search = small_search(tmp_path, n_seeds=1)
    result = write_results(optuna.create_study(), candidates(gain, **{"her.n_sampled_goal": 7}), search)
    assert (f"--recipe {tmp_path / 'best.yaml'}" in str(result.train_command)) == is_better
    verdict = json.loads((tmp_path / "verdict.json").read_text(), parse_constant=pytest.fail)
    assert verdict["candidates"][0]["is_better"] == is_better
    best = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert ("her" in best) == (gain[0] > 0), "the best one, better or not"


def test_the_recommended_command_names_what_the_trials_learnt_from(tmp_path: Path) -> None:
    search = small_search(tmp_path, n_seeds=1)
    config = search.config
    config = replace(config, init_from="logs/a, b", demos=replace(config.demos, path="demos/x-v0"))
    config = replace(config, env=replace(config.env, name="evil:BitFlipping-v0"))
    search = replace(search, config=config)
    command = str(write_results(optuna.create_study(), candidates((0.4, 0.1, 0.7)), search).train_command)
    assert shlex.split(command)[-2:] == ["demos=demos/x-v0", "init_from='logs/a, b'"]
    assert "evil" not in command


@pytest.mark.slow
def test_files_of_a_finished_search(finished: Path) -> None:
    study = finished / STUDY
    trials = pd.read_csv(study / "trials.csv")
    assert list(trials.number) == [0, 1, 2]
    assert set(trials.state) <= {"COMPLETE", "PRUNED"}
    assert trials.loc[0, ["her.n_sampled_goal", "her.goal_selection_strategy"]].tolist() == [4, "future"]
    assert (finished / "stdout").read_text().startswith("3 trials: ")
    for name in ("history", "slice", "strategies"):
        assert (study / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    runs = [yaml.safe_load(path.read_text()) for path in study.glob("trials/*/dqn/*/config.yaml")]
    assert len(runs) == 3
    assert {run["seed"] for run in runs} == {0}
    seeds = {yaml.safe_load(path.read_text())["seed"] for path in study.glob("reruns/*/dqn/*/config.yaml")}
    assert seeds == {RERUN_SEED_OFFSET, RERUN_SEED_OFFSET + 1}, "not those of the search"
    assert len(list(study.glob("reruns/*/dqn/*/last_model.zip"))) == 4
    assert not list(study.glob("trials/*/dqn/*/*.zip"))


@pytest.mark.slow
def test_the_live_table_of_a_search(finished: Path) -> None:
    shown = (finished / "terminal").read_text()
    assert "Traceback" not in shown
    assert re.search(r"3\s+(complete|running)", shown)


@pytest.mark.slow
def test_best_yaml_is_a_recipe(rlher, finished: Path) -> None:
    best = finished / STUDY / "best.yaml"
    config = yaml.safe_load(rlher("train", "algo=dqn", "env=BitFlipping-v0", "--recipe", str(best), "--cfg", "job").out)
    comparison = json.loads((finished / STUDY / "verdict.json").read_text())
    params = comparison["candidates"][0]["params"]
    her = {f"her.{key}": value for key, value in config["her"].items()}
    baseline = {"her.n_sampled_goal": 4, "her.goal_selection_strategy": "future"}
    assert {key: her[key] for key in baseline} == (params or baseline)
    assert (config["env"]["kwargs"]["n_bits"], config["total_timesteps"], config["algo"]["net_arch"]) == (4, 120, [16])


@pytest.mark.slow
def test_the_same_command_again_adds_nothing(rlher, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (finished / STUDY / "trials.csv").read_text()
    monkeypatch.chdir(finished)
    again = rlher("optimize", *SMALL, "--n-trials", "3")
    assert again.code == 0, again.err
    assert (finished / STUDY / "trials.csv").read_text() == before
    assert again.out == (finished / "stdout").read_text()
