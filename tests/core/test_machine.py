"""The number of cores that a run may use."""

import pytest

from rlher.core import machine


@pytest.mark.parametrize(("threads", "expected"), [("1", 1), ("64", 2), ("", 2), ("2,1", 2)])
def test_affinity_and_the_number_of_threads_limit_the_cores(monkeypatch, threads: str, expected: int) -> None:
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert machine.available_cores() == expected
