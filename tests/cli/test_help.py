"""``rlher --help`` and ``rlher <command> --help``."""

from pathlib import Path

import pytest

from rlher.cli.commands import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(rlher, name: str) -> None:
    done = rlher(name, "--help")
    assert done.code == 0
    assert f"usage: rlher {name}" in done.out
    command = COMMANDS[name]
    assert [flag for flag in command.flags if flag not in done.out] == []
    assert command.summary in rlher("--help").out


def test_train_without_words_shows_examples(rlher, tmp_path: Path) -> None:
    done = rlher("train")
    assert done.code == 2
    assert done.out.count("\n  rlher train ") >= 3
    assert not list(tmp_path.iterdir())


def test_help_lists_the_keys_of_all_algorithms(rlher) -> None:
    assert rlher("plot", "--by", "algo", "--help").code == 0
    assert rlher("export", "FetchReach-v4", "--help").code == 0, "a run of this environment"
    shown = rlher("train", "--help-all", "env=nowhere").out
    assert {"algo.policy_delay", "algo.ent_coef", "env.kwargs"} <= set(shown.split())
