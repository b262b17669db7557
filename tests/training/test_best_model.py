"""Which model of a run is the best."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch as th

from rlher.evaluation.metrics import COLUMNS
from rlher.training.callbacks.evaluation import EvaluationCallback

STEPS = (100, 200, 300)


@pytest.mark.parametrize(
    ("success", "returns", "best"),
    [
        ((0.5, 0.9, 0.8), (0, 0, 0), 200),
        ((0.9, 0.9, 0.8), (-5, -4, 0), 200),
        ((0.9, 0.9, 0.8), (-4, -5, 0), 100),
        ((1.0, 1.0, 1.0), (-4, -4, -4), 300),
    ],
)
def test_ties_go_to_the_higher_return_then_to_the_later_model(
    monkeypatch: pytest.MonkeyPatch, success: tuple, returns: tuple, best: int
) -> None:
    results = iter(zip(success, returns, strict=True))
    saved: list[int] = []

    def evaluate() -> dict[str, Any]:
        rate, total = next(results)
        return dict.fromkeys(COLUMNS) | {"success_rate": rate, "mean_reward": total}

    callback = EvaluationCallback(evaluate, 100, lambda: saved.append(callback.model.num_timesteps), lambda rows: None)
    monkeypatch.setattr(callback, "_log", lambda row: None)
    for steps in STEPS:
        callback.model = SimpleNamespace(num_timesteps=steps, _n_updates=0, policy=th.nn.Linear(1, 1))  # type: ignore[assignment]
        callback.evaluate()
    assert callback.best
    assert callback.best["timesteps"] == saved[-1] == best
