"""Speed of a training run with the fast update, with Stable-Baselines3's, and with SBX where sbx-rl is installed.

    python scripts/bench_train.py [--json] [--only sac tqc64] [--rounds 5] [--threads 1] [--cpu-time] [--startup]
    python scripts/bench_train.py --device cuda --only sac tqc2048

Each contender trains on the same environment with the same networks and batch, from a full buffer of 1,000,000
transitions, in a process of its own; they take turns, so that a busy machine slows all of them, and medians over the
turns are compared. SB3 and SBX use SB3's HerReplayBuffer. The floor is a lower bound of the time of a step: the
arithmetic at the rate of this machine's matrix product, and the environment's own step. On a busy machine, use
`--threads 1 --cpu-time`: processor time of the whole process instead of the clock's. The floor is the CPU's.
SBX comes with `pip install rlher[bench]`.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pkgutil import resolve_name
from typing import Any

import gymnasium
import numpy as np
import torch as th
from full_buffer import append_episode
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as SB3Buffer
from torch.nn import functional as F

from rlher import HerReplayBuffer
from rlher.config.algorithms import ALGORITHMS

MILLION = 1_000_000
START = 1_000  # random steps, whose episodes fill the buffer


@dataclass(frozen=True)
class Work:
    """One line of the table.

    :param steps: environment steps a turn.
    :param bars: least ratio of speed, by contender.
    """

    algo: str
    env: str
    nets: list[int]
    batch: int
    steps: int
    bars: dict[str, float]
    policy: dict[str, Any] = field(default_factory=dict)
    env_kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name of the work for the table."""
        critics = f", {self.policy['n_critics']} critic" if "n_critics" in self.policy else ""
        return f"{self.algo.upper()} {'x'.join(map(str, self.nets))}{critics} b{self.batch}, {self.env}"


WORKS = {
    "sac": Work("sac", "FetchReach-v4", [256, 256], 256, 100, {"sb3": 2.0, "sbx": 1.3}),
    "tqc64": Work("tqc", "FetchReach-v4", [64, 64], 256, 100, {"sb3": 2.6, "sbx": 1.2}, {"n_critics": 1}),
    "tqc512": Work("tqc", "parking-v0", [512] * 3, 512, 10, {"sb3": 1.4, "sbx": 1.0}),
    "tqc2048": Work("tqc", "FetchPush-v4", [512] * 3, 2048, 3, {"sb3": 1.4, "sbx": 1.0}),
    "dqn": Work("dqn", "BitFlipping-v0", [256], 128, 300, {"sb3": 2.5}, env_kwargs={"n_bits": 15}),
}


# ------------------------------------------------------------------------------------------------ contenders


def make_env(work: Work) -> gymnasium.Env:
    """Make the environment."""
    from rlher.envs.bit_flipping import BitFlippingEnv
    from rlher.envs.simulators import import_env_package

    for package in ("gymnasium_robotics", "highway_env", "rlher.envs.registration"):
        import_env_package(package)

    return BitFlippingEnv(**work.env_kwargs) if work.env == "BitFlipping-v0" else gymnasium.make(work.env)


def build(
    work: Work,
    contender: str,
    capacity: int = MILLION,
    precision: str = "float32",
    options: dict[str, Any] | None = None,
    device: str = "cpu",
) -> Any:
    """Build a model that has played ``START`` random steps and whose buffer is full.

    :param options: arguments of rlher's classes alone, instead of those that ``contender`` and ``precision`` stand for.
    """
    is_rlher, algorithm = contender.startswith("rlher"), ALGORITHMS[work.algo]
    kind = (
        _sbx(work.algo) if contender == "sbx" else algorithm.load() if is_rlher else resolve_name(algorithm.sb3_class)
    )
    env = make_env(work)
    extra: dict[str, Any] = {}
    if is_rlher:
        extra |= options or {"compile": contender != "rlher eager", "bf16": precision == "bf16"}
    if work.algo in ("ddpg", "td3"):
        shape = env.action_space.shape or ()
        extra["action_noise"] = NormalActionNoise(np.zeros(shape), np.full(shape, 0.2))
    model = kind(
        "MultiInputPolicy",
        env,
        learning_rate=1e-3,
        gamma=0.95,
        tau=0.05,
        batch_size=work.batch,
        buffer_size=capacity,
        learning_starts=START,
        train_freq=1,
        seed=0,
        replay_buffer_class=HerReplayBuffer if is_rlher else SB3Buffer,
        policy_kwargs={"net_arch": work.nets, **work.policy},
        **({} if contender == "sbx" else {"device": device}),
        **extra,
    )
    model.learn(START)
    (fill if is_rlher else fill_sb3)(model.replay_buffer, capacity)
    return model


def _sbx(algo: str) -> Any:
    import sbx

    return getattr(sbx, algo.upper())


def fill(buffer: HerReplayBuffer, capacity: int) -> None:
    """Repeat the first episodes in the buffer until it is full."""
    storage = buffer.storage
    index = 0
    arrays = []
    for episode in storage.episodes(0)[:-1]:  # the last one may still run
        first, last = storage.episode_first_id[episode], storage.episode_last_id[episode]
        positions = storage.positions(np.arange(first, last + 1))
        last_obs = storage.episode_last_obs[episode].copy()
        arrays.append((storage.rows[positions], last_obs, storage.next_achieved_goals[positions]))
    while storage.n_transitions + 1000 < capacity:
        rows, last_obs, next_achieved_goals = arrays[index % len(arrays)]
        append_episode(storage, rows, last_obs, next_achieved_goals)
        index += 1


def fill_sb3(buffer: SB3Buffer, capacity: int) -> None:
    """Repeat the first steps in SB3's arrays until they are full; a million calls of `add` take half a minute."""
    count = int(np.flatnonzero(buffer.dones[:START, 0])[-1]) + 1  # whole episodes
    copies = -(-capacity // count)
    plain = [buffer.actions, buffer.rewards, buffer.dones, buffer.timeouts, buffer.ep_length]
    for array in [*plain, *buffer.observations.values(), *buffer.next_observations.values()]:
        array[:] = np.tile(array[:count], (copies, *[1] * (array.ndim - 1)))[:capacity]
    starts = np.arange(copies)[:, None] * count + buffer.ep_start[:count, 0]
    buffer.ep_start[:, 0] = starts.reshape(-1)[:capacity]
    rest = capacity - (copies - 1) * count
    if rest < count:  # the last copy, and so its last episode, is truncated
        cut = buffer.ep_start[-1, 0]
        buffer.ep_length[cut:] = 0
    buffer.full, buffer.pos, buffer._current_ep_start[:] = True, 0, 0


# ------------------------------------------------------------------------------------------------- measuring


class Contender:
    """A model that trains in turns, in its own process, so that settings and memory of others do not affect it."""

    def __init__(self, work: Work, name: str, threads: int, arguments: argparse.Namespace) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, work, name, threads, arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.speeds: list[float] = []
        self.updates: list[float] = []

    def turn(self) -> None:
        """Train for some steps."""
        self.pipe.send(True)
        speed, update = self.pipe.recv()
        self.speeds.append(speed)
        self.updates.append(update)

    def end(self) -> None:
        """End the process."""
        self.pipe.send(False)
        self.process.join()


def serve(pipe: Any, work: Work, name: str, threads: int, arguments: argparse.Namespace) -> None:
    """Build and warm up a contender; train for some steps for each True from the pipe, until False."""
    th.set_num_threads(threads)
    clock = clock_of(arguments)
    model = build(work, name, arguments.capacity, arguments.precision, device=arguments.device)
    train, spent = model.train, 0.0

    def timed(*args: Any, **kwargs: Any) -> None:
        nonlocal spent
        started = clock()
        train(*args, **kwargs)
        spent += clock() - started

    model.train = timed
    model.learn(work.steps, reset_num_timesteps=False)
    while pipe.recv():
        spent, started = 0.0, clock()
        model.learn(work.steps, reset_num_timesteps=False)
        pipe.send((work.steps / (clock() - started), 1e3 * spent / work.steps))


def clock_of(arguments: argparse.Namespace) -> Callable[[], float]:
    """Return the clock that the arguments select."""
    return time.process_time if arguments.cpu_time else time.perf_counter


def floor(work: Work, threads: int, clock: Callable[[], float], bf16: bool = False) -> dict[str, float]:
    """Return the milliseconds of a step's arithmetic and of the environment's step."""
    th.set_num_threads(threads)
    width, dtype = max(work.nets), th.bfloat16 if bf16 else th.float32
    a, b = th.randn(work.batch, width, dtype=dtype), th.randn(width, width, dtype=dtype)
    rate = 2 * work.batch * width * width / _best(lambda: F.linear(a, b), clock)
    env: Any = make_env(work)
    inputs = sum(int(np.prod(space.shape)) for space in env.observation_space.spaces.values())
    if work.algo == "dqn":
        macs, passes = _macs([inputs, *work.nets, int(env.action_space.n)]), 4  # target, forward, backward twice
        flops = 2 * work.batch * macs * passes
    else:
        outputs = 25 if work.algo == "tqc" else 1
        actions = int(np.prod(env.action_space.shape))
        critics = work.policy.get("n_critics", 2) * _macs([inputs + actions, *work.nets, outputs])
        actor = _macs([inputs, *work.nets, 2 * actions])
        # Critics: target, forward, backward twice, forward and backward for the actor. Actor: both twice.
        flops = 2 * work.batch * (6 * critics + 4 * actor)
    env.reset(seed=0)

    def step() -> None:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()

    return {"arithmetic_ms": 1e3 * flops / rate, "env_ms": 1e3 * _best(step, clock, 200), "gflops": rate / 1e9}


def _macs(widths: list[int]) -> int:
    return sum(before * after for before, after in pairwise(widths))


def _best(function: Callable[[], Any], clock: Callable[[], float], repeats: int = 60) -> float:
    """Return the seconds of a call, the lower quartile of many."""
    times = []
    for _ in range(repeats):
        started = clock()
        function()
        times.append(clock() - started)
    return sorted(times)[repeats // 4]


def measure(work: Work, arguments: argparse.Namespace) -> dict[str, Any]:
    """Let all contenders train in turns, and return speeds, update times, floor and ratios."""
    names = ["rlher eager" if arguments.eager else "rlher", "sb3"]
    if importlib.util.find_spec("sbx") and work.algo != "dqn":  # SBX's DQN does not support dictionaries
        names.append("sbx")
    threads = arguments.threads or th.get_num_threads()
    th.set_num_threads(threads)
    contenders = {name: Contender(work, name, threads, arguments) for name in names}
    for _ in range(1 + arguments.rounds):
        for contender in contenders.values():
            contender.turn()
    for contender in contenders.values():
        contender.end()
        del contender.speeds[0], contender.updates[0]  # some were still building
    speeds = {name: statistics.median(each.speeds) for name, each in contenders.items()}
    bottom = floor(work, threads, clock_of(arguments), arguments.precision == "bf16")
    ratios = {
        name: statistics.median(a / b for a, b in zip(contenders[names[0]].speeds, each.speeds, strict=True))
        for name, each in contenders.items()
        if name != names[0]
    }
    return {
        "work": work.title,
        "steps_per_second": speeds,
        "update_ms": {name: statistics.median(each.updates) for name, each in contenders.items()},
        "floor": bottom | {"steps_per_second": 1e3 / (bottom["arithmetic_ms"] + bottom["env_ms"])},
        "ratios": ratios,
        "bars": work.bars,
        "threads": threads,
        "precision": arguments.precision,
        "device": th.cuda.get_device_name() if arguments.device == "cuda" else arguments.device,
    }


def show(row: dict[str, Any]) -> None:
    """Print the results of one work."""
    threads = f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}"
    print(f"\n{row['work']} ({row['device']}, {threads}, {row['precision']})")
    for name, speed in row["steps_per_second"].items():
        ratio, bar = row["ratios"].get(name), row["bars"].get(name)
        against = "" if ratio is None else f"   rlher is {ratio:4.2f} times as fast"
        met = "" if bar is None or ratio is None else f", bar {bar:g}: {'met' if ratio >= bar else 'NOT met'}"
        print(f"  {name:<12} {speed:8.1f} steps/s {row['update_ms'][name]:9.2f} ms an update{against}{met}")
    low = row["floor"]
    print(
        f"  {'floor':<12} {low['steps_per_second']:8.1f} steps/s {low['arithmetic_ms']:9.2f} ms of arithmetic at "
        f"{low['gflops']:.0f} GFLOP/s, {low['env_ms']:.2f} ms a step of the environment"
    )


# --------------------------------------------------------------------------------------------------- start-up

FIRST_UPDATE = "import sys; sys.path.insert(0, 'scripts'); import bench_train as b; b.first_update(*sys.argv[1:])"


def first_update(name: str, contender: str) -> None:
    """Build a model and update once."""
    model = build(WORKS[name], contender, capacity=2 * START)
    model.train(1, model.batch_size)


def startup(name: str, cpu_time: bool) -> dict[str, float]:
    """Return the seconds from starting Python to the end of the first update: plain, cold and warm compile cache."""
    found = {}
    clock: Callable[[], float] = (lambda: sum(os.times()[2:4])) if cpu_time else time.perf_counter
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
        for label, contender in {"eager": "rlher eager", "cold": "rlher", "warm": "rlher"}.items():
            started = clock()
            subprocess.run(
                [sys.executable, "-c", FIRST_UPDATE, name, contender], env=environment, check=True, capture_output=True
            )
            found[label] = clock() - started
    return found


def main() -> None:
    """Run the selected measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", nargs="+", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender")
    parser.add_argument("--threads", type=int, help="of torch, for rlher and SB3; default: torch's")
    parser.add_argument("--cpu-time", action="store_true", help="measure processor time")
    parser.add_argument("--capacity", type=int, default=MILLION)
    parser.add_argument("--precision", default="float32", choices=("float32", "bf16"), help="of rlher")
    parser.add_argument("--device", default="cpu", help="of rlher and SB3")
    parser.add_argument("--eager", action="store_true", help="do not compile rlher")
    parser.add_argument("--startup", action="store_true", help="time to the first update instead")
    arguments = parser.parse_args()
    if arguments.threads == 1:  # SBX's too
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    rows = []
    for name in arguments.only:
        if arguments.startup:
            rows.append({"work": WORKS[name].title, "seconds_to_first_update": startup(name, arguments.cpu_time)})
            if not arguments.json:
                times = "   ".join(
                    f"{label} {took:.1f} s" for label, took in rows[-1]["seconds_to_first_update"].items()
                )
                print(f"{WORKS[name].title}: first update after {times}")
        else:
            rows.append(measure(WORKS[name], arguments))
            if not arguments.json:
                show(rows[-1])
    if arguments.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
