"""Which model of a run is the best."""

from pathlib import Path

import pytest

from rlher.training.best_model import BestModel


@pytest.mark.parametrize(
    ("success", "returns", "best"),
    [
        ((0.5, 0.9, 0.8), (0, 0, 0), 1),
        ((0.9, 0.9, 0.8), (-5, -4, 0), 1),
        ((0.9, 0.9, 0.8), (-4, -5, 0), 0),
        ((1.0, 1.0, 1.0), (-4, -4, -4), 2),
    ],
)
def test_ties_go_to_the_higher_return_then_to_the_later_model(
    tmp_path: Path, success: tuple[float, ...], returns: tuple[float, ...], best: int
) -> None:
    model, found = BestModel(tmp_path / "best.zip"), []
    for number, (rate, total) in enumerate(zip(success, returns, strict=True)):
        row = {"timesteps": number, "success_rate": rate, "mean_reward": total}
        if model.offer(row, bytes([number])):
            found.append(number)
        model.write()
    assert found[-1] == model.row["timesteps"] == best
    assert model.path.read_bytes() == model.read() == bytes([best])
