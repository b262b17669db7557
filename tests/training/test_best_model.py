"""Which model of a run is the best."""

import pytest

from rlher.training.best_model import best_row


@pytest.mark.parametrize(
    ("success", "returns", "best"),
    [
        ((0.5, 0.9, 0.8), (0, 0, 0), 1),
        ((0.9, 0.9, 0.8), (-5, -4, 0), 1),
        ((0.9, 0.9, 0.8), (-4, -5, 0), 0),
        ((1.0, 1.0, 1.0), (-4, -4, -4), 2),
    ],
)
def test_ties_go_to_the_higher_return_then_to_the_later_row(
    success: tuple[float, ...], returns: tuple[float, ...], best: int
) -> None:
    rows = [{"success_rate": rate, "mean_reward": total} for rate, total in zip(success, returns, strict=True)]
    assert best_row(rows) is rows[best]
    assert best_row([]) is None
