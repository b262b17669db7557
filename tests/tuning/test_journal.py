"""The journal file: incomplete records are dropped, damaged files are refused."""

from pathlib import Path

import optuna
import pytest

from rlher.core.errors import UserError
from rlher.tuning import journal
from rlher.tuning.study_storage import open_storage


@pytest.mark.parametrize("rest", ['{"op_code":6,"worker', '{"op_c\\0de":6,"wor\n', "\0" * 100_000])
def test_incomplete_record_does_not_damage_the_next_one(tmp_path: Path, rest: str) -> None:
    """As after a full disk; Optuna's own backend would append to the record and lose both."""

    def study() -> optuna.Study:
        storage = open_storage(None, tmp_path, 60, print)
        return optuna.create_study(storage=storage, study_name="mine", load_if_exists=True)

    study().optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    running = study()
    with (tmp_path / "journal.log").open("a") as file:
        file.write(rest)
    assert len(study().trials) == 2
    running.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    assert len(study().trials) == len(running.trials) == 3


def test_only_the_states_of_trials_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(journal.os, "fsync", synced.append)
    study = optuna.create_study(storage=open_storage(None, tmp_path, 60, print))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    assert len(synced) == 2


@pytest.mark.parametrize(
    "text", ["[]\n", "nonsense\nnonsense\n", '{"op_code": 99}\n', "\0\n\0\n", "[" * 9000 + "\n[\n"]
)
def test_damaged_journal_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "journal.log").write_text(text)
    with pytest.raises(UserError) as caught:
        open_storage(None, tmp_path, 60, print)
    assert f" {tmp_path / 'journal.log'}: " in str(caught.value)
