"""Reading run folders in every condition."""

import json
from pathlib import Path

import pandas as pd
import pytest

from rlher.analysis import loading
from rlher.analysis.comparison import final_success_rates
from rlher.core.console import recorded_warnings
from tests.analysis.conftest import load_group, notes_about
from tests.conftest import Make


def test_trials_and_what_comes_with_a_checkout_are_read_only_if_named(make_run: Make, three_seeds, tmp_path) -> None:
    make_run("optuna/study/trials/0/sac/Some-v0_1", algo={"learning_rate": 0.1})
    make_run("benchmark/agent/Some-v0_0")
    make_run("sac/Some-v0_10", 10)
    runs = loading.read_runs(str(tmp_path / "logs"))
    assert [run.folder.name for run in runs] == [f"Some-v0_{number}" for number in (0, 1, 2, 3, 10)]
    assert len(loading.read_runs(str(tmp_path / "logs" / "optuna" / "study"))) == 1
    shipped = set(loading.run_folders(loading.BENCHMARK))
    assert len(shipped) > len(shipped.intersection(loading.run_folders(loading.BENCHMARK.parent))) == 0


def test_an_unfinished_run_counts_with_its_last_evaluation(make_run: Make) -> None:
    folder = make_run("running", rows=4)
    (folder / "result.json").unlink()
    assert final_success_rates(load_group(folder)).tolist() == [0.4]


@pytest.mark.parametrize("text", ["[", '{"success_rate": {}, "episodes": "many"}'])
def test_a_damaged_result_is_ignored(rlher, make_run: Make, text: str) -> None:
    folder = make_run("odd")
    (folder / "result.json").unlink()
    without = rlher("compare")
    (folder / "result.json").write_text(text)
    assert rlher("compare") == without
    assert without.code == 0


RATES = "timesteps,success_rate\n"
DAMAGED: dict[str, tuple[str, dict[str, str]]] = {
    "config of another program": ("config.yaml", {"config.yaml": "services: [web]\n"}),
    "invalid YAML": ("config.yaml", {"config.yaml": "a: [1"}),
    "YAML tag that runs code": ("config.yaml", {"config.yaml": "!!python/object/apply:os.system [exit]"}),
    "config that contains itself": (
        "config.yaml",
        {"config.yaml": "{algo: &a {b: *a}, env: {}, her: {}}", "evaluations.csv": f"{RATES}1,1\n"},
    ),
    "no evaluations": ("evaluations.csv", {}),
    "rates in per cent": ("evaluations.csv", {"evaluations.csv": f"{RATES}100,55\n"}),
    "binary evaluations": ("evaluations.csv", {"evaluations.csv": bytes(range(256)).decode("latin-1")}),
    "result in per cent": ("result.json", {"evaluations.csv": f"{RATES}1,1\n", "result.json": '{"success_rate": 7}'}),
}


def test_damaged_runs_are_skipped_with_one_message_each(rlher, make_run: Make, three_seeds) -> None:
    for number, (_, files) in enumerate(DAMAGED.values()):
        folder = make_run(f"damaged-{number}", 7)
        (folder / "evaluations.csv").unlink()
        for file, content in files.items():
            (folder / file).write_text(content, "latin-1")
    for words in (("plot", "--output", "a.png", "--csv", "a.csv"), ("compare",), ("report", "--output", "a.html")):
        done = rlher(*words)
        assert done.code == 0, done.err
        for number, (file, _) in enumerate(DAMAGED.values()):
            (note,) = notes_about(f"damaged-{number}", done.err)
            assert file in note
    assert set(pd.read_csv("a.csv").seeds) == {3}
    assert "sac, future (3 seeds)" in Path("a.html").read_text()


def test_a_failed_run_counts_with_a_note(make_run: Make) -> None:
    folder = make_run("one")
    (folder / "result.json").write_text(json.dumps({"status": "failed", "timesteps": 700}))
    with recorded_warnings() as notes:
        (run,) = loading.read_runs(str(folder))
    (note,) = notes
    assert run.final("success_rate") >= 0
    assert str(folder) in note


def test_the_final_evaluation_counts_where_it_is_the_only_one(make_run: Make) -> None:
    folder = make_run("short")
    (folder / "evaluations.csv").unlink()
    result = {"status": "finished", "timesteps": 300, "success_rate": 0.65, "best": {"timesteps": 300}}
    (folder / "result.json").write_text(json.dumps(result))
    run = loading.read_run(folder)
    assert run.points("timesteps", "success_rate").to_dict() == {300: 0.65}
    assert (run.first_reaching(0.5), run.final("success_rate")) == (300, 0.65)


def test_steps_of_a_resumed_run_count_once(make_run: Make) -> None:
    folder = make_run("a")
    rows = [(50, 0.1), (100, 0.2), (100, 0.4), (50, ""), ("", 0.9), ("x", 0.9), (1e300, 0.9)]
    text = "\n".join(f"{steps},{moved}" for steps, moved in rows)
    (folder / "progress.csv").write_text(f"time/total_timesteps,rollout/object_moved\n{text}\n")
    assert loading.read_run(folder).points("timesteps", "object_moved").to_dict() == {50: 0.1, 100: 0.4}
