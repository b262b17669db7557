"""Reading run folders in every condition."""

import json
from pathlib import Path

import pandas as pd
import pytest

from rlher.analysis import loading
from rlher.analysis.comparison import final_success_rates
from tests.analysis.conftest import load_group, notes_about, write_log
from tests.conftest import Make


def test_trials_of_a_study_are_read_only_if_named(make_run: Make, three_seeds, tmp_path: Path) -> None:
    make_run("optuna/study/trials/0/sac/Some-v0_1", algo={"learning_rate": 0.1})
    make_run("sac/Some-v0_10", 10)
    runs = loading.read_runs(str(tmp_path / "logs"))
    assert [run.folder.name for run in runs] == [f"Some-v0_{number}" for number in (1, 2, 3, 10)]
    assert len(loading.read_runs(str(tmp_path / "logs" / "optuna" / "study"))) == 1


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
DAMAGED: dict[str, tuple[str, dict[str, bytes | str]]] = {
    "config of another program": ("config.yaml", {"config.yaml": b"services: [web]\n"}),
    "invalid YAML": ("config.yaml", {"config.yaml": b"a: [1"}),
    "YAML tag that runs code": ("config.yaml", {"config.yaml": b"!!python/object/apply:os.system [exit]"}),
    "config that contains itself": (
        "config.yaml",
        {"config.yaml": b"{algo: &a {b: *a}, env: {}, her: {}}", "evaluations.csv": f"{RATES}1,1\n"},
    ),
    "no evaluations": ("evaluations.csv", {}),
    "rates in per cent": ("evaluations.csv", {"evaluations.csv": f"{RATES}100,55\n"}),
    "binary evaluations": ("evaluations.csv", {"evaluations.csv": bytes(range(256))}),
    "result in per cent": ("result.json", {"evaluations.csv": f"{RATES}1,1\n", "result.json": '{"success_rate": 7}'}),
}


def write_damaged_run(make_run: Make, name: str, files: dict[str, bytes | str]) -> Path:
    folder = make_run(name, 7)
    (folder / "evaluations.csv").unlink()
    for file, content in files.items():
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_damaged_runs_are_skipped_with_one_message_each(rlher, make_run: Make, three_seeds) -> None:
    for number, (_, files) in enumerate(DAMAGED.values()):
        write_damaged_run(make_run, f"damaged-{number}", files)
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
    notes: list[str] = []
    (run,) = loading.read_runs(str(folder), notes.append)
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
    assert (run.steps_to(0.5), run.final("success_rate")) == (300, 0.65)


def test_the_training_log_has_the_axes_of_the_evaluations(make_run: Make) -> None:
    folder = make_run("a")
    write_log(folder)
    run = loading.read_run(folder)
    moved = run.points("timesteps", "object_moved")
    steps = moved.index.to_numpy()
    assert steps.tolist() == list(range(50, 1001, 50))
    assert set(moved) == {0.5}
    losses = run.points("wall_seconds", "critic_loss")
    assert losses.index.to_numpy() == pytest.approx(steps / 50)
    assert losses.to_numpy() == pytest.approx(100 / steps)
    assert run.points("updates", "critic_loss").index.to_numpy() == pytest.approx(2 * steps)
    assert run.points("timesteps", "success_rate").iloc[0] == pytest.approx(0.1), "of the evaluations"
    assert set(run.points("timesteps", "rollout/success_rate")) == {0.25}, "of training"


def test_steps_of_a_resumed_run_count_once(make_run: Make) -> None:
    folder = make_run("a")
    rows = [(50, 0.1), (100, 0.2), (100, 0.4), (50, ""), ("", 0.9), ("x", 0.9), (1e300, 0.9)]
    text = "\n".join(f"{steps},{moved}" for steps, moved in rows)
    (folder / "progress.csv").write_text(f"time/total_timesteps,rollout/object_moved\n{text}\n")
    assert loading.read_run(folder).points("timesteps", "object_moved").to_dict() == {50: 0.1, 100: 0.4}
