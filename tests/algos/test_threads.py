"""The number of threads follows what was measured."""

import pytest
import torch as th

from rlher.algos import threads


@pytest.mark.parametrize(("one", "both", "chosen"), [(1.0, 0.6, 2), (1.0, 0.9, 1), (1.0, 3.0, 1)])
def test_more_threads_where_they_pay(monkeypatch, one, both, chosen) -> None:
    monkeypatch.setattr(threads, "MOST", 2)
    monkeypatch.setattr(threads, "_time", lambda count, *_: one if count == 1 else both)
    found, sentence = threads.fastest(256, [64])
    assert found == chosen
    assert str(chosen) in sentence


@pytest.mark.parametrize("net_arch", [[8, 8], [16], []])
def test_measuring_leaves_no_trace(net_arch) -> None:
    before, state = th.get_num_threads(), th.get_rng_state()
    found, _ = threads.fastest(32, net_arch)
    assert 1 <= found <= before
    assert th.get_num_threads() == before
    assert th.equal(th.get_rng_state(), state)
