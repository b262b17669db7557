"""Memory limits of Linux control groups, such as those of containers and batch jobs."""

from collections.abc import Iterator
from pathlib import Path


def available(root: Path = Path("/")) -> Iterator[int]:
    """Yield the bytes that each control group of this process, and each group above it, leaves.

    Cached files count as available, because the kernel frees them on demand.

    :param root: where ``proc`` and ``sys`` are mounted.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2
            mount, limit_file, usage_file, prefix = root / "sys/fs/cgroup", "memory.max", "memory.current", ""
        elif "memory" in controllers.split(","):  # version 1
            mount = root / "sys/fs/cgroup/memory"
            limit_file, usage_file, prefix = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
        else:
            continue
        group = mount / path.strip("/")
        for folder in (group, *group.parents):
            limit, usage = _read(folder / limit_file).strip(), _read(folder / usage_file).strip()
            if limit.isdigit() and usage.isdigit():  # "max": no limit
                yield int(limit) - int(usage) + _cached(folder / "memory.stat", prefix)
            if folder == mount:
                break


def _cached(path: Path, prefix: str) -> int:
    statistics = dict(line.split() for line in _read(path).splitlines())
    return sum(int(statistics.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
