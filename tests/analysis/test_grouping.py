"""Grouping of runs into seeds of one group, and labels of groups."""

from pathlib import Path

import pytest

from rlher.analysis import grouping
from rlher.analysis.loading import read_runs
from rlher.config.command_configs import RunSelectionConfig
from rlher.core.console import recorded_warnings
from rlher.core.errors import UserError
from tests.analysis.conftest import notes_about
from tests.conftest import Make


def group_logs(tmp_path: Path, *by: str) -> dict[str, int]:
    """Return the labels of all groups with their number of runs."""
    runs = read_runs(str(tmp_path / "logs"))
    return {group.label: len(group.runs) for group in grouping.group_runs(runs, by)}


def test_seeds_are_grouped_and_any_other_key_splits_a_group(make_run: Make, three_seeds, tmp_path: Path) -> None:
    assert group_logs(tmp_path) == {"sac, future": 3}
    make_run("sac/Some-v0_9", 5, algo={"learning_rate": 0.1})
    assert group_logs(tmp_path) == {f"algo.learning_rate={rate}": n for rate, n in ((0.001, 3), (0.1, 1))}
    assert group_logs(tmp_path, "algo") == {"sac": 4}
    assert group_logs(tmp_path, "demos.path") == {"demos.path=None": 4}
    assert group_logs(tmp_path, "her.n_sampled_goal") == {"her.n_sampled_goal=4": 4}
    with pytest.raises(UserError, match="n_sampled_gaol"):
        group_logs(tmp_path, "her.n_sampled_gaol")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({}, {"her": {"n_sampled_goal": 0}}, {"future", "off"}),
        ({}, {"her": {"n_steps": 1, "goal_mix": {}}}, {"sac, future"}),  # a missing key has its default
        ({}, {"freq": 70, "rows": 5, "eval": {"freq": 70}, "threads": 2}, {"sac, future"}),
        ({"her": {"old_key": 1}}, {"her": {"old_key": 2}}, {"her.old_key=1", "her.old_key=2"}),  # no longer exists
        ({}, {"callbacks": ["a:B"]}, {"sac, future", "callbacks=['a:B']"}),
        (
            {"her": {"priority": "uniform", "priority_kwargs": {}}},
            {"her": {"priority": "energy", "priority_kwargs": {"height": 2}}},
            {"her.priority=uniform", "her.priority=energy"},
        ),
        (
            {"algo": {"gamma": 0.9, "tau": 0.5}},
            {"algo": {"gamma": 0.8, "tau": 0.5}},
            {"algo.gamma=0.9", "algo.gamma=0.8"},
        ),
    ],
)
def test_labels_name_the_keys_that_differ(make_run: Make, tmp_path: Path, one: dict, other: dict, expected) -> None:
    make_run("one", 0, **one)
    make_run("other", 1, **other)
    assert set(group_logs(tmp_path)) == expected


def test_a_folder_without_a_run_is_skipped(rlher, three_seeds) -> None:
    Path("logs/empty").mkdir()
    with recorded_warnings() as notes:
        groups = grouping.load_groups(RunSelectionConfig(["logs/empty", "logs/sac"]))
    (note,) = notes
    assert [(group.label, len(group.runs)) for group in groups] == [("sac", 3)]
    assert "logs/empty" in note
    with pytest.raises(UserError) as error:
        grouping.load_groups(RunSelectionConfig(["logs/empty", "logs/empty/"]))
    assert "logs/empty" in str(error.value)


def test_a_folder_is_one_group_without_repeated_runs(rlher, make_run: Make, three_seeds) -> None:
    make_run("sac/other", 3, algo={"learning_rate": 0.1})
    shorter = make_run("sac/again", 2, rows=4)
    make_run("tqc/one", 0)
    with recorded_warnings() as notes:
        groups = grouping.load_groups(RunSelectionConfig(["logs/sac", "logs/tqc"]))
    assert [(group.label, len(group.runs)) for group in groups] == [("sac", 4), ("tqc", 1)]
    assert [note for note in notes if "algo.learning_rate" in note]
    (note,) = notes_about("again", "\n".join(notes))
    assert "Some-v0_3" in note
    assert shorter not in {run.folder for run in groups[0].runs}
