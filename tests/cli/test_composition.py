"""The exit code of a sweep."""

import pytest

from rlher.cli import main
from rlher.cli.commands import load_command


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ({"algos": 0, "envs": 2, "strategies": 1}, ["algos", "envs", "strategies"]),
        ({"algos": 130, "envs": 0}, ["algos"]),
    ],
)
def test_sweep_returns_the_largest_exit_code_and_ends_at_an_interrupt(monkeypatch, codes: dict, expected: list) -> None:
    seen = []
    module = load_command("list").module
    monkeypatch.setattr(module, "run", lambda config: seen.append(config.what) or codes[config.what])
    code = main.run(["list", "-m", f"what={','.join(codes)}"])
    assert (seen, code) == (expected, max(codes.values()))
