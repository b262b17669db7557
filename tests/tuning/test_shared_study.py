"""A study that several workers share: which trials count, and who may join."""

from pathlib import Path

import pytest
from optuna.study import StudyDirection

from rlher.core.errors import UserError
from rlher.tuning.study import (
    count_unstarted,
    counted_trials,
    fail_and_requeue,
    is_surplus,
    open_study,
    requeue,
)
from rlher.tuning.study_storage import open_storage
from tests.support.workers import new_study


def test_the_later_of_two_workers_on_the_last_trial_is_surplus(tmp_path: Path) -> None:
    study, _ = new_study(tmp_path)
    numbers = [study.ask().number for _ in range(4)]
    assert [is_surplus(study, number, 3) for number in numbers] == [False, False, False, True]
    fail_and_requeue(study, numbers[1])
    assert count_unstarted(study, 3) == 1, "the requeued trial"
    retry = study.ask().number
    assert not is_surplus(study, retry, 3)
    assert is_surplus(study, numbers[3], 3)


def test_study_with_another_identity_is_refused(tmp_path: Path) -> None:
    storage = open_storage(None, tmp_path, 60, requeue)
    open_study(storage, "mine", [StudyDirection.MAXIMIZE], {"objective": "success"})
    with pytest.raises(UserError) as caught:
        open_study(storage, "mine", [StudyDirection.MAXIMIZE], {"objective": "auc"})
    assert "'mine' has objective=success, this command auc" in str(caught.value)


def test_study_of_an_older_version_is_joined(tmp_path: Path) -> None:
    """The version had a key that is not compared any more, and lacked the key ``new``."""
    storage, directions = open_storage(None, tmp_path, 60, requeue), [StudyDirection.MAXIMIZE]
    defaults = {"seed": 0, "new": 1, "mix": {}}
    open_study(storage, "mine", directions, {"seed": 3, "removed": "x", "mix.future": 0.5})
    same = {"seed": 3, "new": 1, "mix.future": 0.5}
    assert not open_study(storage, "mine", directions, same, (), defaults)[1]
    for key, changed in {
        "new": {**same, "new": 2},
        "seed": {**same, "seed": 0},
        "mix.future": {"seed": 3, "new": 1, "mix": {}},
        "mix.final": {**same, "mix.final": 1},
    }.items():
        with pytest.raises(UserError) as caught:
            open_study(storage, "mine", directions, changed, (), defaults)
        assert f" has {key}=" in str(caught.value)


def test_trial_that_kills_every_worker_fails_for_good(tmp_path: Path) -> None:
    study, _ = new_study(tmp_path)
    numbers = []
    for _ in range(3):
        numbers.append(study.ask().number)
        fail_and_requeue(study, numbers[-1])
    assert [trial.number for trial in counted_trials(study)] == [numbers[-1]]
    assert count_unstarted(study, 1) == 0
