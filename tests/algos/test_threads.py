"""The number of threads is chosen by measurement."""

import pytest
import torch as th

from rlher.algos import threads


@pytest.mark.parametrize(("one", "many", "chosen"), [(1.0, 0.6, 2), (1.0, 0.9, 1), (1.0, 3.0, 1)])
def test_more_threads_if_they_are_faster(monkeypatch, one, many, chosen) -> None:
    monkeypatch.setattr(threads, "AVAILABLE", 2)
    monkeypatch.setattr(threads, "_time", lambda count, *_: one if count == 1 else many)
    found, line = threads.choose_threads(256, [64])
    assert found == chosen
    assert str(chosen) in line


@pytest.mark.parametrize(("many", "chosen"), [(0.5, 1), (0.2, 2)])
def test_a_gain_that_is_too_small_is_left_to_other_work(monkeypatch, many: float, chosen: int) -> None:
    monkeypatch.setattr(threads, "AVAILABLE", 2)
    monkeypatch.setattr(threads, "_time", lambda count, *_: 1.0 if count == 1 else many)
    assert threads.choose_threads(256, [64], min_gain=0.7)[0] == chosen


def test_cores_of_environments_that_step_meanwhile_are_left_to_them(monkeypatch) -> None:
    monkeypatch.setattr(threads, "AVAILABLE", 4)
    monkeypatch.setattr(threads, "_time", lambda count, *_: 1 / count)
    assert [threads.choose_threads(256, [64], busy)[0] for busy in (0, 1, 2, 3, 9)] == [4, 3, 2, 1, 1]


@pytest.mark.parametrize("net_arch", [[8, 8], [16], []])
def test_measuring_changes_neither_threads_nor_random_state(net_arch) -> None:
    before, state = th.get_num_threads(), th.get_rng_state()
    found, _ = threads.choose_threads(32, net_arch)
    assert 1 <= found <= before
    assert th.get_num_threads() == before
    assert th.equal(th.get_rng_state(), state)
