"""How bounds of target values are resolved; tests/algos/test_faithful.py tests their effect."""

import pytest

from rlher.algos.target_q_bounds import resolve_target_q_bounds

CASES = [
    ("auto", [-1.0, 0.0], 0.95, (-20.0, 0.0)),
    ("auto", [0.0, 1.0], 0.9, (0.0, 10.0)),
    ("auto", [None, 0.0], 0.95, (None, 0.0)),
    ("auto", [-1.0, -0.5], 0.5, (-2.0, 0.0)),  # an episode may end at once: 0 is always possible
    ("auto", None, 0.95, None),
    ("auto", [-1.0, 0.0], 1.0, None),
    (None, [-1.0, 0.0], 0.95, None),
    ([-5, 5], None, 0.95, (-5, 5)),
]


@pytest.mark.parametrize(("value", "rewards", "gamma", "expected"), CASES)
def test_resolve(value, rewards, gamma, expected) -> None:
    bounds = resolve_target_q_bounds(value, rewards, gamma)
    assert bounds == (None if expected is None else pytest.approx(expected))
