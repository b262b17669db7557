"""Whether the replay buffer will fit into memory: asked before a run starts, because it fills up days later."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.her.layout import Layout
from rlher.her.storage import Storage

SPARED = 2**28
"""Bytes left to everything else that a run will still want: networks, optimisers, an evaluation."""

RANKED = 16
"""Bytes that priorities take for each transition."""


def require_room(config: TrainConfig, envs: VecEnv) -> str:
    """Return a sentence on what the replay buffer will take, or refuse a run whose buffer will not fit.

    A buffer takes memory as it fills, so a run that is shorter than its buffer needs less; but address space is
    reserved for all of it.

    :param config: with an episode's limit filled in.
    :param envs: goal environments.
    :raises UserError: naming the largest ``algo.buffer_size`` that would fit.
    """
    observation_space, action_space = envs.observation_space, envs.action_space
    assert isinstance(observation_space, spaces.Dict)  # which was checked
    wanted = config.algo.buffer_size
    stored = min(wanted, config.total_timesteps)
    each = _bytes_each(config, Layout.of(observation_space, action_space))
    free = available()
    fits = None if free is None else max(free - SPARED, 0) // each
    if free is not None and fits is not None and stored > fits:
        raise UserError(
            f"the replay buffer will take {_size(stored * each)} for {stored:,} transitions, and {_size(free)} of "
            f"memory are free: algo.buffer_size={_rounded(fits)} fits."
        )

    def has_room(capacity: int) -> bool:
        return _can_reserve(capacity, config.n_envs, observation_space, action_space)

    if not has_room(wanted):
        granted = _largest(has_room, wanted)
        raise UserError(
            f"the system grants no address space for a replay buffer of {wanted:,} transitions: "
            f"algo.buffer_size={_rounded(granted if fits is None else min(granted, fits))} fits."
        )
    more = "" if fits is None else f", {_rounded(fits):,} would fit"
    return f"replay buffer of up to {stored:,} transitions, {_size(stored * each)}{more}"


def _bytes_each(config: TrainConfig, layout: Layout) -> int:
    """Return the bytes that a transition takes, its share of what is stored once an episode included."""
    row = layout.row.itemsize + layout.achieved_goals(1).nbytes
    episode = row + layout.goals(1).nbytes + 16  # the final row, the goal, where it begins and ends
    steps = config.env.max_episode_steps or 1
    return row + 8 + -(-episode // steps) + (RANKED if config.her.priority != "uniform" else 0)


def _can_reserve(capacity: int, n_envs: int, observation_space: spaces.Dict, action_space: spaces.Space) -> bool:
    try:
        spared = np.empty(SPARED, dtype=np.uint8)
        Storage(max(capacity // n_envs, 1), n_envs, observation_space, action_space)
        del spared
    except (MemoryError, ValueError, OverflowError):  # the latter two where NumPy cannot even count the bytes
        return False
    return True


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest number that fits, to one part in sixteen."""
    low, high = 0, most
    while high - low > max(low // 16, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _rounded(number: int) -> int:
    """Round down to two digits."""
    unit = 10 ** max(len(str(number)) - 2, 0)
    return number // unit * unit


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.{count < 10:d}f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


# --------------------------------------------------------------------------------------------- of the machine


def available(root: Path = Path("/")) -> int | None:
    """Return the bytes that can still be taken of the machine's memory and the control group's; None: unknown.

    :param root: where ``proc`` and ``sys`` are mounted.
    """
    machine = _table(root / "proc/meminfo").get("MemAvailable:")
    found = [*([] if machine is None else [machine * 1024]), *_left_to_groups(root)]
    return max(min(found), 0) if found else None


def _left_to_groups(root: Path) -> Iterator[int]:
    """Yield what each control group above this process leaves; what it keeps of files it gives back when asked."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            mount, names = root / "sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        else:
            continue
        group = mount / path.strip("/")
        for folder in (group, *group.parents):
            limit, used = (_read(folder / name).strip() for name in names[:2])
            if limit.isdigit() and used.isdigit():
                kept = _table(folder / "memory.stat")
                files = sum(kept.get(f"{names[2]}{kind}_file", 0) for kind in ("active", "inactive"))
                yield int(limit) - int(used) + files
            if folder == mount:
                break


def _table(path: Path) -> dict[str, int]:
    """Read lines of a name and a whole number."""
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
