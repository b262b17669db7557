"""Limits of Linux control groups, such as those of containers and batch jobs."""

from collections.abc import Iterator
from pathlib import Path


def cpu_quotas(root: Path = Path("/")) -> Iterator[float]:
    """Yield the cores that each control group of this process, and each group above it, may use.

    :param root: where ``proc`` and ``sys`` are mounted.
    """
    for folder, version in _groups("cpu", root):
        files = ["cpu.max"] if version == 2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        words = " ".join(_read(folder / name) for name in files).split()
        if len(words) == 2 and all(word.isdigit() for word in words):  # "max" and -1: no limit
            yield int(words[0]) / int(words[1])


def memory_left(root: Path = Path("/")) -> Iterator[int]:
    """Yield the bytes that each control group of this process, and each group above it, leaves.

    Cached files count as available, because the kernel frees them on demand.

    :param root: where ``proc`` and ``sys`` are mounted.
    """
    for folder, version in _groups("memory", root):
        files = ["max", "current"] if version == 2 else ["limit_in_bytes", "usage_in_bytes"]
        limit, usage = (_read(folder / f"memory.{name}").strip() for name in files)
        if limit.isdigit() and usage.isdigit():  # "max": no limit
            yield int(limit) - int(usage) + _cached_files(folder / "memory.stat", "" if version == 2 else "total_")


def _groups(controller: str, root: Path) -> Iterator[tuple[Path, int]]:
    """Yield the folder of each control group of this process and of each group above it, and the version (1 or 2)."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, version = root / "sys/fs/cgroup", 2
        elif controller in controllers.split(","):
            mount, version = root / "sys/fs/cgroup" / controller, 1
        else:
            continue
        group = mount / path.strip("/")
        for folder in (group, *group.parents):
            yield folder, version
            if folder == mount:
                break


def _cached_files(path: Path, prefix: str) -> int:
    statistics = dict(line.split() for line in _read(path).splitlines())
    return sum(int(statistics.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
