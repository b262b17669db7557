"""Speed and memory of the hindsight replay buffer relative to Stable-Baselines3's and cpprb's, measured in one run.

    python scripts/bench_buffer.py [--json] [--repeats 200] [--capacities 10000 1000000] [--skip-memory]

Observation 25, goal 3, action 4, episodes of 50 steps, strategy `future`, k = 4, float64 spaces as Fetch has them.
Times are tenth percentiles of this thread's processor time, because the machine may be busy; buffers take turns.
A batch of ours and of SB3's is tensors, one of cpprb's NumPy arrays. Install cpprb with `pip install rlher[bench]`.

`add` may take 2.5 times as long as SB3's: it packs rows and finds resets of environments, in about 20 us, beside an
update of milliseconds.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from full_buffer import append_episode
from gymnasium import spaces
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as SB3Buffer

from rlher import HerReplayBuffer, Trajectory

OBS, GOAL, ACT, STEPS, K = 25, 3, 4, 50, 4
MILLION = 1_000_000
BUFFERS = ("ours", "ours td_error", "ours demonstrations", "sb3", "cpprb", "cpprb prioritised")


def box(size: int) -> spaces.Box:
    """Return a space of float64 numbers."""
    return spaces.Box(-np.inf, np.inf, (size,), np.float64)


SPACE = spaces.Dict({"observation": box(OBS), "achieved_goal": box(GOAL), "desired_goal": box(GOAL)})
ACTION = spaces.Box(-1, 1, (ACT,), np.float32)


def compute_reward(achieved: np.ndarray, desired: np.ndarray, info: Any) -> np.ndarray:
    """Return Fetch's sparse rewards."""
    return -(np.linalg.norm(achieved - desired, axis=-1) > 0.05).astype(np.float32)


class OneEnv:
    """The part of a VecEnv that SB3's buffer uses."""

    def env_method(self, name: str, achieved: Any, desired: Any, info: Any, indices: Any = None) -> list:
        """Return what one environment's method returns."""
        return [compute_reward(achieved, desired, info)]


# ------------------------------------------------------------------------------------------------ full buffers


def ours(
    capacity: int, fill: bool = True, n_envs: int = 1, with_demonstrations: bool = False, **options: Any
) -> HerReplayBuffer:
    """Return our buffer, filled an episode at a time through its storage."""
    buffer = HerReplayBuffer(
        capacity, SPACE, ACTION, device="cpu", n_envs=n_envs, compute_reward=compute_reward, seed=0, **options
    )
    if with_demonstrations:
        buffer.set_demonstrations(demonstrations())
    rng, storage = np.random.default_rng(0), buffer.storage
    rows, last_obs = np.zeros(STEPS, storage.layout.row_dtype), np.zeros((), storage.layout.observation_dtype)
    obs = rows["obs"]
    for _ in range(capacity // STEPS if fill else 0):
        achieved = rng.random((STEPS + 1, GOAL), dtype=np.float32)
        obs["observation"], last_obs["observation"] = rng.random((STEPS, OBS)), rng.random(OBS)
        obs["achieved_goal"], last_obs["achieved_goal"] = achieved[:-1], achieved[-1]
        obs["desired_goal"] = last_obs["desired_goal"] = achieved[0] + 1
        rows["action"], rows["reward"] = rng.random((STEPS, ACT)), -1
        append_episode(storage, rows, last_obs, achieved[1:])
    return buffer


def demonstrations(count: int = 100) -> list[Trajectory]:
    """Return demonstrations of as many steps as other episodes have."""
    rng, found = np.random.default_rng(1), []
    for _ in range(count):
        achieved = rng.random((STEPS + 1, GOAL))
        observations = {"observation": rng.random((STEPS + 1, OBS)), "achieved_goal": achieved}
        observations["desired_goal"] = np.repeat(achieved[:1] + 1, STEPS + 1, axis=0)
        found.append(Trajectory(observations, rng.uniform(-1, 1, (STEPS, ACT)), -np.ones(STEPS)))
    return found


def sb3(capacity: int, fill: bool = True, n_envs: int = 1) -> SB3Buffer:
    """Return SB3's buffer, its arrays filled directly: a million calls of `add` take half a minute."""
    buffer = SB3Buffer(capacity, SPACE, ACTION, OneEnv(), device="cpu", n_envs=n_envs, n_sampled_goal=K)
    if fill:
        rng = np.random.default_rng(0)
        arrays = [*buffer.observations.values(), *buffer.next_observations.values(), buffer.actions]
        for array in arrays:
            for start in range(0, capacity, 10_000):  # in pieces, for a low peak of memory
                array[start : start + 10_000] = rng.random(array[start : start + 10_000].shape)
        buffer.rewards[:], buffer.dones[:], buffer.timeouts[:] = -1, 0, 0
        buffer.ep_start[:, 0] = np.arange(capacity) // STEPS * STEPS
        buffer.ep_length[:], buffer.full = STEPS, True
    return buffer


def cpprb(capacity: int, prioritised: bool) -> Any:
    """Return cpprb's hindsight buffer with as many transitions, of which it stores k + 1 relabelled copies."""
    from cpprb import HindsightReplayBuffer

    state = {"shape": OBS + GOAL}  # cpprb computes goals from states
    buffer = HindsightReplayBuffer(
        capacity,
        {"obs": state, "act": {"shape": ACT}, "next_obs": state},
        max_episode_len=STEPS,
        reward_func=lambda next_obs, act, goal: compute_reward(next_obs[:, -GOAL:], goal, None),
        goal_func=lambda obs: obs[:, -GOAL:],
        goal_shape=(GOAL,),
        additional_goals=K,
        prioritized=prioritised,
    )
    rng, count = np.random.default_rng(0), min(capacity, 10_000)
    for _ in range(max(1, capacity // count)):
        both = rng.random((2, count, OBS + GOAL))
        act, goal = rng.random((count, ACT)), rng.random((count, GOAL))
        buffer.rb.add(obs=both[0], act=act, next_obs=both[1], goal=goal, rew=-np.ones(count))
    return buffer


def build(name: str, capacity: int) -> Any:
    """Return a full buffer."""
    if name == "ours demonstrations":
        return ours(capacity, with_demonstrations=True)
    if name.startswith("ours"):
        return ours(capacity, priority="td_error" if "td_error" in name else "uniform")
    return sb3(capacity) if name == "sb3" else cpprb(capacity, "prioritised" in name)


# ---------------------------------------------------------------------------------------------------- measuring


def turns(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the microseconds of each call, measured in turns in ten blocks.

    The tenth percentile, because slower calls measure what else the machine does (see `timeit`).
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(10):
        for name, call in calls.items():
            call()  # loads its code and data into the caches
            for _ in range(max(1, repeats // 10)):
                start = time.thread_time_ns()
                call()
                times[name].append((time.thread_time_ns() - start) / 1000)
    return {name: float(np.quantile(each, 0.1)) for name, each in times.items()}


def sampling(capacity: int, batch: int, names: list[str], buffers: dict[str, Any], repeats: int) -> dict[str, float]:
    """Return the microseconds of one batch."""
    return turns({name: lambda b=buffers[name]: b.sample(batch) for name in names}, repeats)


def adding(n_envs: int, repeats: int) -> dict[str, float]:
    """Return the microseconds of one step of every environment."""
    rng = np.random.default_rng(0)
    states = rng.random((STEPS + 1, n_envs, OBS + GOAL))
    goal, actions = rng.random((n_envs, GOAL)), rng.random((STEPS, n_envs, ACT), dtype=np.float32)
    obs = [{"observation": s[:, :OBS], "achieved_goal": s[:, OBS:], "desired_goal": goal} for s in states]

    def episode(buffer: Any) -> None:
        for step in range(STEPS):
            last = step == STEPS - 1
            infos = [{"TimeLimit.truncated": True} if last else {} for _ in range(n_envs)]
            done = np.full(n_envs, last)
            buffer.add(obs[step], obs[step + 1], actions[step], -np.ones(n_envs), done, infos)

    buffers = {"ours": ours(100_000, fill=False, n_envs=n_envs), "sb3": sb3(100_000, fill=False, n_envs=n_envs)}
    found = turns({name: lambda b=buffer: episode(b) for name, buffer in buffers.items()}, repeats)
    return {name: time / STEPS for name, time in found.items()}


def memory(name: str) -> float:
    """Return the megabytes of a full buffer of a million, measured in another process."""
    command = [sys.executable, __file__, "--memory-of", name]
    environment = os.environ | {"PYTHONSAFEPATH": ""}  # set by rlher; without it, scripts import modules beside them
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def resident() -> float:
    """Return the resident memory of this process in megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def measure(capacities: list[int], repeats: int, with_memory: bool) -> dict[str, Any]:
    """Return all measurements: microseconds, milliseconds, megabytes."""
    found: dict[str, Any] = {"sample": {}, "add": {}}
    names = list(BUFFERS if _has_cpprb() else BUFFERS[:4])
    for capacity in capacities:
        buffers = {name: build(name, capacity) for name in names}
        for batch in (256, 2048):
            found["sample"][f"{batch} of {capacity}"] = sampling(capacity, batch, names, buffers, repeats)
        del buffers
    for n_envs in (1, 8):
        found["add"][str(n_envs)] = adding(n_envs, repeats)
    found["construct_ms"] = min(turns({"ours": lambda: ours(MILLION, fill=False)}, 20).values()) / 1000
    if with_memory:
        found["memory_mb"] = {name: memory(name) for name in ("ours", "sb3")}
    return found


def _has_cpprb() -> bool:
    try:
        import cpprb  # noqa: F401
    except ImportError:
        return False
    return True


# ---------------------------------------------------------------------------------------------------- reporting


def bars(found: dict[str, Any]) -> list[tuple[str, float, str, bool]]:
    """Return rows of the table of requirements: work, ratio, required ratio, and whether it is met."""
    sample, rows = found["sample"], []

    def row(work: str, ratio: float, bar: float, at_least: bool) -> None:
        rows.append((work, ratio, f"{'>=' if at_least else '<='} {bar:g}", ratio >= bar if at_least else ratio <= bar))

    for batch, bar, slower in ((256, 14, 1.3), (2048, 8, 2.0)):
        big, small = sample.get(f"{batch} of {MILLION}"), sample.get(f"{batch} of 10000")
        if big:
            row(f"sample {batch} of 1,000,000: SB3 / ours", big["sb3"] / big["ours"], bar, True)
        if big:
            ratio = big["ours demonstrations"] / big["ours"]
            row(f"sample {batch} of 1,000,000: with demonstrations / without", ratio, 1.15, False)
        if big and "cpprb" in big:
            row(f"sample {batch} of 1,000,000: cpprb / ours", big["cpprb"] / big["ours"], 1, True)
            ratio = big["cpprb prioritised"] / big["ours td_error"]
            row(f"sample {batch} of 1,000,000, prioritised: cpprb / ours", ratio, 1, True)
        if big and small:
            row(f"sample {batch}: at 1,000,000 / at 10,000", big["ours"] / small["ours"], slower, False)
    for n_envs, times in found["add"].items():
        row(f"add, n_envs = {n_envs}: SB3 / ours", times["sb3"] / times["ours"], 0.4, True)
    if "memory_mb" in found:
        row("memory at 1,000,000: ours / SB3", found["memory_mb"]["ours"] / found["memory_mb"]["sb3"], 0.3, False)
    row("construction at 1,000,000, ms", found["construct_ms"], 10, False)
    return rows


def report(found: dict[str, Any]) -> None:
    """Print the tables."""
    for work, times in found["sample"].items():
        print(f"sample {work}: " + ", ".join(f"{name} {time:.0f} us" for name, time in times.items()))
    for n_envs, times in found["add"].items():
        print(f"add, n_envs = {n_envs}: " + ", ".join(f"{name} {time:.1f} us" for name, time in times.items()))
    print(f"\n{'work':62} {'ratio':>8}  {'bar':8} met")
    for work, ratio, bar, met in bars(found):
        print(f"{work:62} {ratio:8.2f}  {bar:8} {'yes' if met else 'NO'}")


def chart(found: dict[str, Any], path: str) -> None:
    """Draw microseconds per batch over capacity, log-log, one panel per batch size."""
    from matplotlib import pyplot as plt

    styles = dict(zip(BUFFERS, ("C0o-", "C0o--", "C0o:", "C3s-", "C2^-", "C2^--"), strict=True))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for axis, batch in zip(axes, (256, 2048), strict=True):
        points = {
            int(work.split()[-1]): times for work, times in found["sample"].items() if work.startswith(f"{batch} ")
        }
        for name in next(iter(points.values())):
            axis.loglog(list(points), [times[name] for times in points.values()], styles[name], label=name, ms=4)
        axis.set(title=f"one batch of {batch}", xlabel="transitions held")
        axis.grid(alpha=0.3, which="both")
    axes[0].set_ylabel("microseconds")
    axes[0].legend(fontsize=8)
    figure.savefig(path)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print numbers as JSON")
    parser.add_argument("--repeats", type=int, default=200, help="batches timed per buffer")
    parser.add_argument("--capacities", type=int, nargs="+", default=[10_000, MILLION])
    parser.add_argument("--skip-memory", action="store_true", help="do not measure memory")
    parser.add_argument("--chart", metavar="FILE", help="draw time over capacity into an SVG or PNG file")
    parser.add_argument("--memory-of", choices=("ours", "sb3"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.memory_of:
        before = resident()
        buffer = build(args.memory_of, MILLION)
        buffer.sample(256)
        print(resident() - before)
        return
    found = measure(args.capacities, args.repeats, not args.skip_memory)
    if args.chart:
        chart(found, args.chart)
    print(json.dumps(found | {"bars": bars(found)}, indent=1)) if args.json else report(found)


if __name__ == "__main__":
    main()
