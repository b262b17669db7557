"""`rlher optimize`: spaces, the study many workers share, what is handed back, and what it survives."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import psycopg
import pytest
import sqlalchemy
import yaml
from optuna.study import StudyDirection
from optuna.trial import TrialState

from rlher.cli import overrides
from rlher.config.algorithms import ALGORITHMS, DQNConfig
from rlher.config.training import EvalConfig, TrainConfig
from rlher.config.tuning import OptimizeConfig
from rlher.core import stats
from rlher.core.errors import UserError
from rlher.tuning import scoring, search_space
from rlher.tuning.launchers import Local
from rlher.tuning.objective import Search, recipe_of, suggest
from rlher.tuning.shared_study import counted, free, is_surplus, open_study, queue_again, unclaimed
from rlher.tuning.significance import best_first, score_of
from rlher.tuning.storage import open_storage
from rlher.tuning.supervisor import supervise
from rlher.tuning.worker import REASON, Order, load, run
from tests.conftest import TINY, Outcome
from tests.support.postgres import Postgres, binaries
from tests.support.workers import new_study, quietly, require_total, wait_for

BITS = ("algo=dqn", "env=BitFlipping-v0", "env.n_bits=4", "~tuned", *TINY, "total_timesteps=120", "eval.freq=40")
SMALL = (*BITS, "n_seeds=1", "rerun_best=1", "rerun_seeds=2")


# --------------------------------------------------------------------------------------------- spaces


def dqn() -> TrainConfig:
    return TrainConfig(algo=DQNConfig(name="dqn"))


@pytest.mark.parametrize(("name", "algo"), [*(("full", algo) for algo in ALGORITHMS), ("her+algo", "dqn")])
def test_every_space_fits_every_algorithm(name: str, algo: str) -> None:
    config = TrainConfig(algo=ALGORITHMS[algo].config(name=algo))
    found = search_space.load(name, config)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.enqueue_trial(search_space.start(found, config))
    first, second = study.ask(), study.ask()
    own = {key: suggest(first, key, each) for key, each in found.items()}
    trained = search_space.merged(config, own)
    assert replace(trained, her=replace(trained.her, goal_mix={})) == config, "trial 0 is the recipe"
    other = {key: suggest(second, key, each) for key, each in found.items()}
    assert search_space.merged(config, other) != config


def test_a_space_takes_in_the_recipes_own_values(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("algo: {gamma: {low: 0.9, high: 0.92}, net_arch: {choices: [[8], [16, 16]]}}\n")
    found = search_space.load(str(file), replace(dqn(), algo=DQNConfig(name="dqn", gamma=0.97, net_arch=[64])))
    assert (found["algo.gamma"].low, found["algo.gamma"].high) == (0.9, 0.97)
    assert [search_space.decode(choice) for choice in found["algo.net_arch"].choices] == [[8], [16, 16], [64]]


WRONG = [
    ("her: {n_sampled_gaol: {low: 1, high: 2}}", "did you mean 'her.n_sampled_goal'"),
    ("algo: {ent_coef: {choices: [auto]}}", "dqn does not have"),
    ("her: {n_sampled_goal: 3}", "no range"),
    ("her: {n_sampled_goal: {low: 1, hihg: 2}}", "did you mean 'high'"),
    ("her: {n_sampled_goal: {low: 1, 3: 2}}", "has no '3'"),
    ("her: {n_sampled_goal: {low: 1}}", "low and high"),
    ("her: {n_sampled_goal: {low: -3, high: 2}}", "at least 0"),
    ("her: {goal_selection_strategy: {choices: [future, fianl]}}", "did you mean 'final'"),
    ("her: {goal_selection_strategy: {low: 1, high: 2}}", "needs choices"),
    ("algo: {gamma: {low: 0.9, high: 1.5}}", "at most 1"),
    ("algo: {learning_rate: {low: 0, high: 1, log: true}}", "above 0"),
    ("algo: {gradient_steps: {low: 1, high: 2}}", "algo.gradient_steps=..."),
    ("total_timesteps: {low: 10, high: 20}", "no key to tune"),
    ("her: {goal_mix: {fuure: {low: 0, high: 1}}}", "did you mean 'her.goal_mix.future'"),
    ("defaults: [hers]", "did you mean 'her'"),
    ("defaults: 3", "a list of other spaces"),
    ("defaults: [mine.yaml]", "a list of other spaces"),
    ("[1, 2]", "not a space"),
    ("a: b: c", "cannot read"),
    ("{}", "nothing to tune"),
]


@pytest.mark.parametrize(("text", "told"), WRONG, ids=[told for _, told in WRONG])
def test_a_wrong_space_is_told_before_the_first_trial(rlher, tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "mine.yaml").write_text(text + "\n")
    done = rlher("optimize", *SMALL, "--space", "mine.yaml")
    assert (done.code, told in done.err, len(done.err.splitlines()) <= 3) == (2, True, True), done.err
    assert not (tmp_path / "logs").exists()


# --------------------------------------------------------------------------------------------- the journal


@pytest.mark.parametrize("rest", ['{"op_code":6,"worker', '{"op_c\\0de":6,"wor\n', "\0" * 100_000])
def test_a_record_that_was_never_finished_spoils_no_other(tmp_path: Path, rest: str) -> None:
    """The disk was full: Optuna alone would write the next one behind it and read neither, now or ever after."""

    def study() -> optuna.Study:
        storage = open_storage(None, tmp_path, 60, print)
        return optuna.create_study(storage=storage, study_name="mine", load_if_exists=True)

    study().optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    at_work = study()
    with (tmp_path / "journal.log").open("a") as file:
        file.write(rest)
    assert len(study().trials) == 2
    at_work.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    assert len(study().trials) == len(at_work.trials) == 3


@pytest.mark.parametrize(
    "text", ["[]\n", "nonsense\nnonsense\n", '{"op_code": 99}\n', "\0\n\0\n", "[" * 9000 + "\n[\n"]
)
def test_a_damaged_journal_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "journal.log").write_text(text)
    with pytest.raises(UserError, match=r"journal\.log is damaged .*move it away"):
        open_storage(None, tmp_path, 60, print)


# --------------------------------------------------------------------------------------------- bad input

BAD = [
    (("--n-trials", "0"), "at least 1"),
    (("space=hre",), "did you mean 'her'"),
    (("objective=return",), "success, auc, multi"),
    (("--storage", "nonsense"), "no database address"),
    (("--storage", "postgresql://me:s3cret@127.0.0.1:1/db"), "postgresql://***@127.0.0.1:1/db"),
    (("postgresql://me:s3cret@127.0.0.1:1/db",), "neither a flag"),
    (("--storage", "oracle://me:s3cret@127.0.0.1:1/db"), "rlher[oracle]"),
    (("--storage", "sqlite:////nowhere/study.db"), "unable to open"),
    (("--study-name", "../x"), "letters"),
    (("sampler=cmaes", "objective=multi"), "one objective"),
    (("optimize.n_seeds=0",), "n_seeds=0"),
    (("algo.kwargs.frobnicate=1",), "frobnicate"),
]


@pytest.mark.parametrize(("words", "told"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_a_mistake_gets_a_sentence(rlher, tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    done = rlher("optimize", *SMALL, *words)
    assert done.code == 2
    assert told in done.err
    assert "s3cret" not in done.err + done.out
    assert "Traceback" not in done.err
    assert not list(tmp_path.rglob("config.yaml")), "a trial was run"


def test_cfg_shows_no_password(rlher) -> None:
    done = rlher("optimize", "--storage", "postgresql://me:s3cret@host/db", "--cfg", "job")
    assert "postgresql://***@host/db" in done.out
    assert "s3cret" not in done.out + done.err


def test_optimize_dot_is_optional() -> None:
    assert overrides.to_hydra("optimize", ["optimize.n_seeds=3", "--n-trials", "5"]) == ["n_seeds=3", "n_trials=5"]


# --------------------------------------------------------------------------------------------- scores and verdicts


def rows(*rates: float) -> list[dict]:
    return [
        {"timesteps": 100 * (index + 1), "success_rate": rate, "mean_reward": -1.0} for index, rate in enumerate(rates)
    ]


def test_score() -> None:
    curve = scoring.score(rows(0, 0, 0.5, 0.9, 0.8, 1, 0.9, 1, 0.8, 0.6))
    assert (curve.success, curve.steps) == (pytest.approx(0.7), 400)
    assert curve.auc == pytest.approx(0.65)
    assert scoring.score(rows(0, 0.5)).steps == 200, "never at 90 %: the whole run"
    faster, slower = scoring.score(rows(1, 1, 1)), scoring.score(rows(0, 1, 1))
    assert faster.rank > slower.rank


def test_ties_never_outweigh_an_episode() -> None:
    """One success more in the last episodes is worth more than all steps."""
    quick = scoring.Score(success=0.95, auc=0.9, steps=0, mean_reward=0)
    slow = scoring.Score(success=0.95 + 1 / 40, auc=0.1, steps=1000, mean_reward=-9)
    late = replace(quick, steps=900)
    value = [scoring.value("success", each, 1000, episodes=40) for each in (late, quick, slow)]
    assert value == sorted(value)


def test_difference_has_the_coverage_it_claims() -> None:
    """95 % intervals of the difference of success rates of five seeds, over many draws, hold the true one."""
    rng, held, draws = np.random.default_rng(0), 0, 300
    for _ in range(draws):
        chances = np.clip(rng.normal([[0.8], [0.6]], 0.1, (2, 5)), 0, 1)
        treated, control = rng.binomial(50, chances) / 50
        _, low, high = stats.difference_interval(list(treated), list(control), 50)
        held += low <= 0.2 <= high
    assert held / draws >= 0.93


def test_five_perfect_seeds_do_not_prove_perfection() -> None:
    gain, low, high = stats.difference_interval([1.0] * 5, [1.0] * 5, 20)
    assert gain == 0
    assert -0.1 < low < 0 < high < 0.1
    assert stats.difference_interval([1.0] * 5, [0.0] * 5, 20)[1] > 0.9


# --------------------------------------------------------------------------------------------- one study, many workers


def test_two_workers_respect_the_total(tmp_path: Path) -> None:
    study, order = new_study(tmp_path, together=2)
    supervise(study, order, 2, Local(), quietly)
    require_total(study, 8)
    assert len({trial.user_attrs["worker"] for trial in study.trials}) == 2
    supervise(study, order, 2, Local(), quietly)
    assert len(study.trials) == 8, "a second call has nothing to do"


def test_two_commands_share_a_study_and_its_total(tmp_path: Path) -> None:
    study, order = new_study(tmp_path, together=2)
    joined, created = open_study(
        open_storage(None, tmp_path, 60, queue_again), "quadratic", [StudyDirection.MAXIMIZE], {"n": 1}
    )
    assert not created
    other = threading.Thread(target=supervise, args=(joined, replace(order, entropy=(1,)), 1, Local(), quietly))
    other.start()
    supervise(study, order, 1, Local(), quietly)
    other.join()
    require_total(study, 8)


def test_of_two_that_take_the_last_trial_one_steps_back(tmp_path: Path) -> None:
    study, _ = new_study(tmp_path)
    numbers = [study.ask().number for _ in range(4)]
    assert [is_surplus(study, number, 3) for number in numbers] == [False, False, False, True]
    free(study, numbers[1])
    assert unclaimed(study, 3) == 1, "what was freed waits for somebody"
    again = study.ask().number
    assert not is_surplus(study, again, 3)
    assert is_surplus(study, numbers[3], 3)


def test_a_study_of_something_else_is_refused(tmp_path: Path) -> None:
    storage = open_storage(None, tmp_path, 60, queue_again)
    open_study(storage, "mine", [StudyDirection.MAXIMIZE], {"objective": "success"})
    with pytest.raises(UserError, match="objective=success, not auc"):
        open_study(storage, "mine", [StudyDirection.MAXIMIZE], {"objective": "auc"})


def test_workers_propose_different_trials(tmp_path: Path) -> None:
    study, order = new_study(tmp_path)
    study.ask()
    drawn = [load(replace(order, entropy=(0, index))).ask().suggest_float("x", -10, 10) for index in (0, 1, 2)]
    assert len(set(drawn)) == 3


def test_a_killed_workers_trial_is_run_again(tmp_path: Path) -> None:
    study, order = new_study(tmp_path, stuck=2)
    command = threading.Thread(target=supervise, args=(study, order, 2, Local(), quietly))
    command.start()
    wait_for((tmp_path / "stuck").exists)
    time.sleep(0.2)
    os.kill(int((tmp_path / "stuck").read_text()), signal.SIGKILL)
    command.join(60)
    require_total(study, 8)
    lost, again = study.trials[2], counted(study)[-1]
    assert lost.state is TrialState.FAIL
    assert len(study.trials) == 9, "only that trial was lost"
    assert any(trial.params == lost.params for trial in counted(study)), "run again as it was"
    assert again.number == 8


def test_a_trial_that_always_kills_its_worker_is_given_up(tmp_path: Path) -> None:
    study, _ = new_study(tmp_path)
    numbers = []
    for _ in range(3):
        numbers.append(study.ask().number)
        free(study, numbers[-1])
    assert [trial.number for trial in counted(study)] == [numbers[-1]]
    assert unclaimed(study, 1) == 0


def test_a_worker_that_dies_before_its_first_heartbeat_loses_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optuna's heartbeat comes from a thread, which a busy machine may not run before the worker is dead."""
    monkeypatch.setattr(optuna.study._optimize, "get_heartbeat_thread", lambda *_: nullcontext())
    study, order = new_study(tmp_path, f"sqlite:///{tmp_path}/study.db", heartbeat=2)

    def die(_: optuna.Trial) -> float:
        raise SystemExit  # the nearest to a kill within this process: Optuna does not catch it

    with pytest.raises(SystemExit):
        run(replace(order, objective=die))
    assert study.trials[0].state is TrialState.RUNNING
    search = threading.Thread(target=supervise, args=(study, order, 1, Local(), quietly), daemon=True)
    search.start()
    search.join(60)
    require_total(study, 8)
    assert study.trials[0].state is TrialState.FAIL


def test_a_bug_fails_its_trial_and_is_told(tmp_path: Path) -> None:
    study, order = new_study(tmp_path, fails=1)
    supervise(study, replace(order, total=3), 1, Local(), quietly)
    failed = study.trials[1]
    assert failed.state is TrialState.FAIL
    assert failed.user_attrs[REASON] == "ZeroDivisionError: a bug of ours"
    assert [trial.state for trial in study.trials].count(TrialState.COMPLETE) == 2
    assert "Traceback" in "".join(log.read_text() for log in (tmp_path / "workers").iterdir())


# --------------------------------------------------------------------------------------------- the whole command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of the real trainer, as the command line makes it, in the folder it ran in."""
    home = tmp_path_factory.mktemp("optimize")
    done = command(home, "--n-trials", "3", "--workers", "2")
    (home / "stdout").write_text(done.out)
    (home / "stderr").write_text(done.err)
    assert done.code == 0, done.err
    return home


def command(home: Path, *words: str) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-m", "rlher.cli.main", "optimize", *SMALL, *words], cwd=home, capture_output=True, text=True
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


STUDY = "logs/optuna/dqn-BitFlipping-v0-her"


def test_what_comes_back(folder: Path) -> None:
    study = folder / STUDY
    trials = pd.read_csv(study / "trials.csv")
    assert list(trials.trial) == [0, 1, 2]
    assert set(trials.state) <= {"done", "pruned"}
    assert trials.loc[0, ["her.n_sampled_goal", "her.goal_selection_strategy"]].tolist() == [4, "future"]
    told = (folder / "stdout").read_text()
    assert "3 trials: " in told
    assert "on 2 fresh seeds each" in told
    assert "  3/3  trial" in (folder / "stderr").read_text()
    for name in ("history", "slice", "strategies"):
        assert (study / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    runs = [yaml.safe_load(path.read_text()) for path in study.glob("trials/*/dqn/*/config.yaml")]
    assert len(runs) == 3
    assert {run["seed"] for run in runs} == {0}
    seeds = {yaml.safe_load(path.read_text())["seed"] for path in study.glob("reruns/*/dqn/*/config.yaml")}
    assert seeds == {1000, 1001}, "fresh ones"
    assert len(list(study.glob("reruns/*/dqn/*/last_model.zip"))) == 4
    assert not list(study.glob("trials/*/dqn/*/*.zip"))


def test_best_yaml_is_a_recipe(rlher, folder: Path) -> None:
    best = folder / STUDY / "best.yaml"
    words = ("train", "algo=dqn", "env=BitFlipping-v0", f"tuned={best}", "--cfg", "job")
    config = yaml.safe_load(rlher(*words).out)
    verdict = json.loads((folder / STUDY / "verdict.json").read_text())
    params = verdict["candidates"][0]["params"]
    her = {f"her.{key}": value for key, value in config["her"].items()}
    start = {"her.n_sampled_goal": 4, "her.goal_selection_strategy": "future"}
    assert {key: her[key] for key in start} == (params or start)
    assert (config["env"]["n_bits"], config["total_timesteps"], config["algo"]["net_arch"]) == (4, 120, [16])


def test_the_same_command_again_adds_nothing(folder: Path) -> None:
    before = (folder / STUDY / "trials.csv").read_text()
    again = command(folder, "--n-trials", "3")
    assert again.code == 0, again.err
    assert (folder / STUDY / "trials.csv").read_text() == before
    assert again.out == (folder / "stdout").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("objective=auc",), "objective=success, not auc"),
        (("space=her_wide", "--study-name", "dqn-BitFlipping-v0-her"), "made with space="),
        (("env.n_bits=5",), "=4, not 5"),
    ],
)
def test_another_search_under_the_same_name(
    rlher, monkeypatch: pytest.MonkeyPatch, folder: Path, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(folder)
    done = rlher("optimize", *SMALL, *words)
    assert done.code == 2
    assert told in done.err
    assert "--study-name" in done.err


def test_killed_altogether_it_resumes(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "rlher.cli.main", "optimize", *SMALL, "--n-trials", "2", "total_timesteps=300"]
    with (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(words, cwd=tmp_path, start_new_session=True, stderr=stderr, stdout=stderr)
    wait_for(lambda: list((tmp_path / STUDY).glob("trials/1/dqn/*/evaluations.csv")), 120)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = command(tmp_path, "--n-trials", "2", "total_timesteps=300")
    assert done.code == 0, done.err
    trials = pd.read_csv(tmp_path / STUDY / "trials.csv")
    assert list(trials.trial) == [0, 2], "the one under way was lost, and no other"


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "rlher.cli.main", "optimize", *SMALL, "total_timesteps=50000", "--n-trials", "2"]
    process = subprocess.Popen(words, cwd=tmp_path, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for(lambda: list((tmp_path / STUDY).glob("trials/0/dqn/*/evaluations.csv")), 120)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "0 of 2 trials done. The same command goes on" in told
    assert "Traceback" not in told
    storage = open_storage(None, tmp_path / STUDY, 60, queue_again)
    study = optuna.load_study(storage=storage, study_name="dqn-BitFlipping-v0-her")
    assert [trial.state for trial in counted(study)] == [TrialState.WAITING], "its trial is queued again"


def small_search(folder: Path, n_seeds: int) -> tuple[Search, dict]:
    """Return the objective of a tiny search in this process, and the parameters of its trial 0."""
    config = OptimizeConfig(
        algo=DQNConfig(name="dqn", batch_size=16, net_arch=[16], learning_starts=40),
        env=bits_config(),
        total_timesteps=120,
        n_seeds=n_seeds,
        eval=EvalConfig(freq=40, episodes=2),
    )
    found = search_space.load("her", recipe_of(config))
    return Search(config, found, folder), search_space.start(found, recipe_of(config))


def test_pruning_never_cuts_trial_0(tmp_path: Path) -> None:
    search, start = small_search(tmp_path, n_seeds=2)
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=2.0))
    study.enqueue_trial(start, user_attrs={"baseline": True})
    study.optimize(search, n_trials=2)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE, TrialState.PRUNED]
    first, second = study.trials
    assert (len(first.intermediate_values), len(second.intermediate_values)) == (6, 1)
    assert {"success", "auc", "steps", "mean_reward", "seconds"} <= set(first.user_attrs)


def test_a_repeated_proposal_is_trained_on_other_seeds(tmp_path: Path) -> None:
    search, start = small_search(tmp_path, n_seeds=2)
    study = optuna.create_study(direction="maximize")
    study.enqueue_trial(start, user_attrs={"baseline": True})
    study.enqueue_trial(start)
    study.optimize(search, n_trials=2)
    seeds = [yaml.safe_load(path.read_text())["seed"] for path in tmp_path.rglob("config.yaml")]
    assert sorted(seeds) == [0, 1, 2, 3]
    assert [trial.number for trial in best_first(study, "success")] == [0], "and counts as one"


def test_two_objectives(tmp_path: Path) -> None:
    search, _ = small_search(tmp_path, n_seeds=1)
    search = replace(search, config=replace(search.config, objective="multi"))
    study = optuna.create_study(directions=["maximize", "minimize"])
    study.optimize(search, n_trials=1)
    score_found = score_of(study.trials[0])
    assert study.trials[0].values == [score_found.success, score_found.steps]


def bits_config():
    from omegaconf import OmegaConf

    from rlher.config.environment import BitFlippingConfig

    values = OmegaConf.load(ROOT / "conf/env/BitFlipping-v0.yaml")
    del values["defaults"]
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(BitFlippingConfig), values, {"n_bits": 4}))


# --------------------------------------------------------------------------------------------- beyond one machine

ROOT = Path(__file__).parents[2]
SLURM = ROOT / "scripts/optimize_slurm.sh"


def test_slurm_script(tmp_path: Path) -> None:
    subprocess.run(["bash", "-n", str(SLURM)], check=True)
    fake = tmp_path / "sbatch"
    fake.write_text('#!/bin/bash\nprintf "%s\\n" "$@" > sbatch.words\ncat > sbatch.job\necho "Submitted batch job 7"\n')
    fake.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "WORKERS": "12"}
    words = ["--storage", "postgresql://me@db/optuna", "algo=tqc", "her.goal_mix={future: 1}"]
    subprocess.run(["bash", str(SLURM), *words], check=True, cwd=tmp_path, env=environment)
    assert "--array=1-12" in (tmp_path / "sbatch.words").read_text().splitlines()
    job = (tmp_path / "sbatch.job").read_text()
    (tmp_path / "rlher").write_text('#!/bin/bash\nprintf "%s\\n" "$@" > rlher.words\n')
    (tmp_path / "rlher").chmod(0o755)
    subprocess.run(["bash"], input=job, text=True, check=True, cwd=tmp_path, env=environment)
    assert (tmp_path / "rlher.words").read_text().splitlines() == ["optimize", *words]
    refused = subprocess.run(["bash", str(SLURM), "algo=tqc"], capture_output=True, text=True, env=environment)
    assert refused.returncode == 2
    assert "--storage" in refused.stderr


def test_seed_sweep_with_joblib(tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    words = ["train", "-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", *BITS, "seed=0,1"]
    done = subprocess.run(
        [sys.executable, "-m", "rlher.cli.main", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    runs = sorted((tmp_path / "logs/dqn").glob("*/result.json"))
    assert [json.loads(run.read_text())["status"] for run in runs] == ["finished"] * 2


@pytest.fixture
def postgres():
    if (found := binaries()) is None:
        assert "CI" not in os.environ, "CI installs PostgreSQL"
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    server = Postgres(Path(tempfile.mkdtemp(prefix="rlher-pg-")), found)
    yield server
    server.stop()


def in_process(order: Order) -> multiprocessing.process.BaseProcess:
    """Start a worker that no command watches over, as one on another machine is."""
    process = multiprocessing.get_context("spawn").Process(target=run, args=(order,))
    process.start()
    return process


def test_postgresql_restarts_under_a_running_study(postgres, tmp_path: Path) -> None:
    study, order = new_study(tmp_path, postgres.url, seconds=0.5, together=2)
    command = threading.Thread(target=supervise, args=(study, order, 2, Local(), quietly))
    command.start()
    wait_for(lambda: any(trial.state is TrialState.COMPLETE for trial in study.get_trials()))
    postgres.restart()
    command.join(120)
    require_total(study, 8)
    assert all(trial.state is TrialState.COMPLETE for trial in study.trials), "no trial was lost"


def test_postgresql_connection_lost_within_a_transaction_is_made_again(postgres, tmp_path: Path) -> None:
    study, _ = new_study(tmp_path, postgres.url)
    lost: list[int] = []

    def lose(connection, cursor, statement, *_) -> None:
        if "FROM trials" in statement and not lost:
            lost.append(connection.connection.dbapi_connection.info.backend_pid)
            with psycopg.connect(postgres.url, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 10000)", lost)

    sqlalchemy.event.listen(study._storage._backend.engine, "before_cursor_execute", lose)
    assert len(counted(study)) == 1
    assert lost


def test_postgresql_heartbeat_frees_a_dead_machines_trial(postgres, tmp_path: Path) -> None:
    study, order = new_study(tmp_path, postgres.url, heartbeat=1, stuck=1)
    elsewhere = in_process(order)
    wait_for((tmp_path / "stuck").exists)
    time.sleep(0.2)
    elsewhere.kill()
    supervise(study, order, 1, Local(), quietly)
    require_total(study, 8)
    assert study.trials[1].state is TrialState.FAIL


def test_a_ray_node_is_killed(tmp_path: Path) -> None:
    """Two nodes and PostgreSQL, in network and process namespaces that end all that began in them."""
    pytest.importorskip("ray")
    if binaries() is None:
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    apart = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("unshare is not permitted here")
    words = [
        "bash",
        "-c",
        'ip link set lo up && exec "$@"',
        "-",
        sys.executable,
        "-m",
        "tests.support.ray_cluster",
        str(tmp_path),
    ]
    # Loopback is all there is in there, and Ray would leave its token in the home folder.
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    root = ROOT
    done = subprocess.run([*apart, *words], capture_output=True, text=True, cwd=root, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 trials done, 1 lost on the dead node" in done.stdout


def test_postgresql_password_is_stored_nowhere(postgres, tmp_path: Path) -> None:
    url = postgres.url.replace("://rlher@", "://rlher:s3cret@")
    done = command(tmp_path, "--n-trials", "1", "--storage", url)
    assert done.code == 0, done.err
    assert "s3cret" not in done.out + done.err
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    assert not kept
    commands = [path.read_text() for path in tmp_path.rglob("command.txt")]
    assert commands
    assert all("***@" in words for words in commands)
