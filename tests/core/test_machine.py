"""Limits of control groups on memory and cores."""

from pathlib import Path

import psutil
import pytest

from rlher.core import machine

GB = 10**9


def write_files(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def group(folder: str, limit: object, used: int, files: int = 0) -> dict[str, str]:
    stat = f"anon 1\nactive_file {files // 2}\ninactive_file {files // 2}\n"
    texts = {"memory.max": f"{limit}\n", "memory.current": f"{used}\n", "memory.stat": stat}
    return {f"sys/fs/cgroup/{folder}{name}": text for name, text in texts.items()}


@pytest.mark.parametrize(
    ("files", "available"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/job\n", **group("job/", "max", GB)}, None),
        ({"proc/self/cgroup": "0::/a/b\n", **group("a/", 4 * GB, 3 * GB), **group("a/b/", 9 * GB, GB)}, GB),
        ({"proc/self/cgroup": "0::/\n", **group("", 2 * GB, 2 * GB, files=GB)}, GB),
        ({"proc/self/cgroup": "0::/\n", **group("", GB, 2 * GB)}, 0),
        ({"proc/self/cgroup": "0::/\n", **group("", 10**18, 0)}, None),
    ],
)
def test_memory_is_the_minimum_of_the_machine_and_its_groups(tmp_path, monkeypatch, files, available) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": 9 * GB}))
    expected = 9 * GB if available is None else available
    assert machine.available_memory(write_files(tmp_path, files)) == expected


@pytest.mark.parametrize(("threads", "expected"), [("1", 1), ("64", 2), ("", 2), ("2,1", 2)])
def test_affinity_and_the_number_of_threads_limit_the_cores(monkeypatch, tmp_path, threads: str, expected: int) -> None:
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert machine.available_cores(tmp_path) == expected


def test_the_quota_of_a_control_group_limits_the_cores(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: range(64), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    files = {
        "proc/self/cgroup": "0::/job/step\n",
        "sys/fs/cgroup/job/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/job/step/cpu.max": "max 100000\n",
    }
    assert machine.available_cores(write_files(tmp_path, files)) == 2
