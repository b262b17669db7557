"""Grouping of runs into seeds of one agent, and labels of groups."""

from pathlib import Path

import pytest

from rlher.analysis import grouping
from rlher.analysis.loading import read_runs
from rlher.core.errors import UserError
from tests.analysis.conftest import notes_about
from tests.conftest import Make


def group_logs(tmp_path: Path, *by: str) -> dict[str, int]:
    """Return the labels of all groups with their number of runs."""
    runs, _ = read_runs(str(tmp_path / "logs"))
    return {group.label: len(group.runs) for group in grouping.group_runs(runs, by)[0]}


def test_seeds_are_grouped_and_any_other_key_splits_a_group(make_run: Make, three_seeds, tmp_path: Path) -> None:
    assert group_logs(tmp_path) == {"sac, future": 3}
    make_run("sac/Some-v0_9", 5, algo={"learning_rate": 0.1})
    assert group_logs(tmp_path) == {f"sac, future, algo.learning_rate={rate}": n for rate, n in ((0.001, 3), (0.1, 1))}
    assert group_logs(tmp_path, "algo") == {"sac": 4}
    assert group_logs(tmp_path, "her.n_sampled_goal") == {"her.n_sampled_goal=4": 4}


def test_runs_without_her_are_labelled_off(make_run: Make, tmp_path: Path) -> None:
    make_run("a")
    make_run("b", her={"n_sampled_goal": 0})
    assert set(group_logs(tmp_path)) == {"sac, future", "sac, off"} == set(group_logs(tmp_path, "algo", "her"))


def test_an_unknown_key_is_an_error(three_seeds, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        group_logs(tmp_path, "her.n_sampled_gaol")
    assert "'her.n_sampled_gaol' (did you mean 'her.n_sampled_goal'" in str(error.value)


def test_a_message_names_the_keys_that_are_pooled(make_run: Make, tmp_path: Path) -> None:
    make_run("a", 0)
    make_run("b", 1, algo={"learning_rate": 0.1})
    runs, _ = read_runs(str(tmp_path / "logs"))
    (note,) = grouping.group_runs(runs, ["algo"])[1]
    assert note.startswith("Some-v0, sac: ")
    assert note.endswith(" algo.learning_rate")


def test_the_typed_key_names_groups_that_differ_in_several(make_run: Make, tmp_path: Path) -> None:
    for bits in (15, 30):
        folder = make_run(f"bits{bits}", env={"max_episode_steps": bits, "n_bits": bits})
        (folder / "command.txt").write_text(f"rlher train env.n_bits={bits}\n")
    assert set(group_logs(tmp_path)) == {"sac, future, env.n_bits=15", "sac, future, env.n_bits=30"}


def test_a_label_leaves_out_options_that_are_not_used(make_run: Make, tmp_path: Path) -> None:
    make_run("plain")
    make_run("callback", callbacks=["a:B"])
    assert set(group_logs(tmp_path)) == {"sac, future", "sac, future, callbacks=['a:B']"}


def test_a_key_that_is_never_empty_stands_for_the_options_it_needs(make_run: Make, tmp_path: Path) -> None:
    make_run("uniform", her={"priority": "uniform", "energy_height": None})
    make_run("energy", her={"priority": "energy", "energy_height": 2})
    assert set(group_logs(tmp_path)) == {"sac, future, her.priority=uniform", "sac, future, her.priority=energy"}


def test_every_distinguishing_key_is_in_the_label(make_run: Make, tmp_path: Path) -> None:
    keys = [("learning_rate", 0.1), ("gamma", 0.9), ("tau", 0.5), ("batch_size", 8)]
    for index in range(2 ** len(keys)):
        chosen = {key: value for bit, (key, value) in enumerate(keys) if index >> bit & 1}
        make_run(f"run{index}", index, algo=chosen)
    groups = group_logs(tmp_path)
    assert len(groups) == 16
    assert set(groups.values()) == {1}
    assert "sac, future, algo.batch_size=8, algo.gamma=0.9, algo.learning_rate=0.1, algo.tau=0.5" in groups


def test_length_and_evaluation_do_not_split_a_group(make_run: Make, tmp_path: Path) -> None:
    make_run("a", 0)
    make_run("b", 1, freq=70, rows=5, eval={"freq": 70}, threads=2)
    assert list(group_logs(tmp_path).values()) == [2]


def test_a_missing_key_has_its_default(make_run: Make, tmp_path: Path) -> None:
    make_run("old", 0)
    make_run("new", 1, her={"n_steps": 1, "goal_mix": {}})
    assert group_logs(tmp_path) == {"sac, future": 2}


def test_a_repeated_run_is_left_out(make_run: Make, three_seeds, tmp_path: Path) -> None:
    shorter = make_run("again", 1, 0.09, rows=4)
    runs, _ = read_runs(str(tmp_path / "logs"))
    (group,), (note,) = grouping.group_runs(runs)
    assert {run.folder for run in group.runs} == set(three_seeds)
    assert str(shorter) in note
    assert str(three_seeds[1]) in note


def test_a_folder_without_a_run_is_skipped(rlher, three_seeds) -> None:
    Path("logs/empty").mkdir()
    groups, (note,) = grouping.load_groups(["logs/empty", "logs/sac"], "logs", [])
    assert [(group.label, len(group.runs)) for group in groups] == [("sac", 3)]
    assert "logs/empty" in note
    with pytest.raises(UserError) as error:
        grouping.load_groups(["logs/empty", "logs/empty/"], "logs", [])
    assert "logs/empty, logs/empty/" in str(error.value)


def test_a_folder_is_one_group_without_copies(rlher, make_run: Make, three_seeds) -> None:
    make_run("sac/other", 3, algo={"learning_rate": 0.1})
    make_run("sac/copy", 2)
    make_run("tqc/one", 0)
    groups, notes = grouping.load_groups(["logs/sac", "logs/tqc"], "logs", [])
    assert [(group.label, len(group.runs)) for group in groups] == [("sac", 4), ("tqc", 1)]
    assert [note for note in notes if "algo.learning_rate" in note]
    assert notes_about("copy", "\n".join(notes))
