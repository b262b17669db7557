"""Limits of control groups on memory and cores."""

from pathlib import Path

import pytest

from rlher.core import machine

GB = 10**9


def write_files(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def group_v2(folder: str, limit: object, used: int, files: int = 0) -> dict[str, str]:
    stat = f"anon 1\nactive_file {files // 2}\ninactive_file {files // 2}\n"
    texts = {"memory.max": f"{limit}\n", "memory.current": f"{used}\n", "memory.stat": stat}
    return {f"sys/fs/cgroup/{folder}{name}": text for name, text in texts.items()}


def group_v1(folder: str, limit: int, used: int) -> dict[str, str]:
    texts = {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": used, "memory.stat": "total_inactive_file 0"}
    return {f"sys/fs/cgroup/memory/{folder}{name}": f"{text}\n" for name, text in texts.items()}


@pytest.mark.parametrize(
    ("files", "available"),
    [
        ({}, []),
        ({"proc/self/cgroup": "0::/job\n", **group_v2("job/", "max", GB)}, []),
        ({"proc/self/cgroup": "0::/a/b\n", **group_v2("a/", 4 * GB, 3 * GB), **group_v2("a/b/", 9 * GB, GB)}, [8, 1]),
        ({"proc/self/cgroup": "0::/\n", **group_v2("", 4 * GB, 3 * GB, files=2 * GB)}, [3]),
        ({"proc/self/cgroup": "0::/\n", **group_v2("", GB, 2 * GB)}, [-1]),
        ({"proc/self/cgroup": "3:cpu:/\n4:memory:/j\n0::/\n", **group_v1("j/", 2 * GB, GB)}, [1]),
        ({"proc/self/cgroup": "4:memory:/of/the/host\n", **group_v1("", 3 * GB, GB)}, [2]),
    ],
)
def test_memory_that_each_group_leaves(tmp_path, files, available):
    assert list(machine.memory_left(write_files(tmp_path, files))) == [gigabytes * GB for gigabytes in available]


def test_the_quota_of_a_control_group_limits_the_cores(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/job/step\n")
    group = tmp_path / "sys/fs/cgroup/job"
    (group / "step").mkdir(parents=True)
    (group / "step/cpu.max").write_text("max 100000\n")
    (group / "cpu.max").write_text("150000 100000\n")
    assert list(machine.cpu_quotas(tmp_path)) == [1.5]
    (tmp_path / "proc/self/cgroup").write_text("3:cpu,cpuacct:/job\n")
    group = tmp_path / "sys/fs/cgroup/cpu/job"
    group.mkdir(parents=True)
    (group / "cpu.cfs_quota_us").write_text("400000\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    assert list(machine.cpu_quotas(tmp_path)) == [4.0]


@pytest.mark.parametrize(("value", "expected"), [("1", 1), ("64", 2), ("", 2), ("2,1", 2)])
def test_the_number_of_threads_in_the_environment_limits_the_cores(monkeypatch, value: str, expected: int) -> None:
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(machine, "cpu_quotas", list)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert machine.available_cores() == expected
