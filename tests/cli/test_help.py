"""``rlher --help`` and ``rlher <command> --help``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlher.cli.commands import command_names, load_command
from rlher.cli.flags import flags


@pytest.mark.parametrize("name", command_names())
def test_every_command_has_help(rlher, name: str) -> None:
    done = rlher(name, "--help")
    assert done.code == 0
    assert f"usage: rlher {name}" in done.out
    command = load_command(name)
    assert [flag for flag in flags(command) if flag not in done.out] == []
    assert command.summary in rlher("--help").out


def test_train_without_words_shows_examples(rlher, tmp_path: Path) -> None:
    done = rlher("train")
    assert done.code == 2
    assert done.out.count("\n  rlher train ") == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_help_takes_at_most_a_quarter_of_importing_sb3() -> None:
    def seconds(*command: str) -> float:
        """Return the processor time, which other processes of the machine do not change."""
        times = []
        for _ in range(2):
            before = os.times()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            after = os.times()
            times.append(after.children_user + after.children_system - before.children_user - before.children_system)
        return min(times)

    budget = seconds("-c", "import stable_baselines3") / 4
    assert seconds("-m", "rlher.cli.main", "--help") <= budget
    assert seconds("-m", "rlher.cli.main", "train", "--help") <= budget


def test_help_lists_the_keys_of_the_typed_algorithm_and_environment(rlher) -> None:
    shown = rlher("train", "--help", "algo=td3", "env=BitFlipping-v0").out
    assert "algo.policy_delay " in shown
    assert "env.n_bits " in shown
    assert "algo.action_noise" in shown
    assert "(0.2)" in next(line for line in shown.splitlines() if "algo.action_noise" in line), "as its YAML has it"
    assert "algo.policy_delay" not in rlher("train", "--help", "algo=dqn", "env=BitFlipping-v0", "--no-json").out
