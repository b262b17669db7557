"""Ids of worker processes, which may be read from a damaged journal."""

import subprocess
import sys
from typing import Any

import pytest

from rlher.tuning.worker_id import is_dead_here, worker_id


def test_a_running_process_is_not_dead() -> None:
    assert not is_dead_here(worker_id())


def test_a_process_that_ended_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    worker = worker_id(process.pid)
    assert not is_dead_here(worker)
    process.communicate()
    assert is_dead_here(worker)


def test_a_worker_of_another_machine_is_not_dead_here() -> None:
    assert not is_dead_here("elsewhere:1:2")


@pytest.mark.parametrize(
    "worker", ["", "x", "::", "host:x:1", "host:-1:1", f"host:{'9' * 5000}:1", 7, None, [], {"a": 1}]
)
def test_a_malformed_id_is_no_worker(worker: Any) -> None:
    assert is_dead_here(worker)
