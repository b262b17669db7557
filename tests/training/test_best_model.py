"""Which model of a run is the best."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch as th

from rlher.evaluation.rollout import Episode
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
    monkeypatch: pytest.MonkeyPatch, success: tuple[float, ...], returns: tuple[float, ...], best: int
) -> None:
    results = iter(zip(success, returns, strict=True))
    found: list[int] = []

    def start(model: bytes) -> Any:
        rate, total = next(results)
        episodes = [Episode(seed, success=seed < 10 * rate, reward=total) for seed in range(10)]
        return SimpleNamespace(episodes=lambda: episodes)

    def on_result(rows: list[dict[str, Any]], model: bytes, is_best: bool) -> None:
        if is_best:
            found.append(rows[-1]["timesteps"])

    callback = EvaluationCallback(bytes, start, 100, on_result)
    monkeypatch.setattr(callback, "_log", lambda *args: None)
    envs, buffer = SimpleNamespace(total_restarts=0), SimpleNamespace(nbytes=0)
    for steps in STEPS:
        model = SimpleNamespace(num_timesteps=steps, _n_updates=0, policy=th.nn.Linear(1, 1), replay_buffer=buffer)
        callback.model = model  # type: ignore[assignment]
        model.get_env = lambda: envs  # type: ignore[attr-defined]
        callback.evaluate()
        callback.record_pending()
    assert callback.best
    assert callback.best["timesteps"] == found[-1] == best
