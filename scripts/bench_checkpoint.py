"""Measure what checkpoints cost: pause and disk space at a million transitions, and their share of a run's time.

`python scripts/bench_checkpoint.py [--transitions 1000000] [--runs]` fills the replay buffer of a SAC model for
FetchPush-v4, writes a checkpoint, and then times the checkpoints after 10,000 new transitions each (the default
interval), with uniform replay and with priorities by TD error. With `--runs` it also trains with the default interval,
in environments where steps are fast and the share therefore is large.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch as th
from full_buffer import append_episode

from rlher import HerReplayBuffer
from rlher.cli.main import main as rlher
from rlher.config.algorithms import SACConfig
from rlher.config.environment import EnvConfig
from rlher.config.training import HerConfig, RunConfig
from rlher.envs.rebuildable_vec_env import RebuildableVecEnv
from rlher.envs.vec_env import make_vec_env
from rlher.run.build_model import build_model
from rlher.run.run_folder import RunFolder
from rlher.training.checkpointer import Checkpointer
from rlher.training.evaluator import Evaluator

EVERY = RunConfig().checkpoint.freq or 10_000
EPISODE = 50
ROUNDS = 5
RUNS = {
    "dqn BitFlipping-v0": ("algo=dqn", "env=BitFlipping-v0", "total_timesteps=32000", "eval.freq=8000"),
    "sac FetchReach-v4": ("algo=sac", "env=FetchReach-v4", "total_timesteps=10500", "eval.freq=5000"),
}


def main() -> None:
    """Print each measurement as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transitions", type=int, default=1_000_000)
    parser.add_argument("--runs", action="store_true")
    options = parser.parse_args()
    th.set_num_threads(1)
    for priority in ("uniform", "td_error"):
        print(json.dumps(pause(options.transitions, priority)), flush=True)
    for name, words in RUNS.items() if options.runs else ():
        print(json.dumps(share(name, words)), flush=True)


def pause(transitions: int, priority: str) -> dict:
    """Return the seconds that a checkpoint of a full buffer takes between two steps, and its disk space."""
    env = EnvConfig(id="FetchPush-v4", modules=["gymnasium_robotics"], success_key="is_success", success_reward=0.0)
    envs = RebuildableVecEnv(lambda seed: make_vec_env(env, 1, seed, "dummy"), 0, env.max_restarts)
    algo = SACConfig(name="sac", learning_starts=100, gradient_steps=1, buffer_size=transitions)
    config = RunConfig(algo=algo, env=env, her=HerConfig(priority=priority), device="cpu")
    model = build_model(config, envs)
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder), config)
        checkpointer = Checkpointer(run, model, Evaluator(run, model, time.monotonic()))
        model._setup_learn(1)
        buffer = model.replay_buffer
        assert isinstance(buffer, HerReplayBuffer)
        fill(buffer, transitions)
        seconds = []
        for _ in range(ROUNDS + 1):
            fill(buffer, EVERY)
            buffer.sample(256)
            model.num_timesteps += EVERY
            started = time.perf_counter()
            checkpointer.save_if_due()
            seconds.append(time.perf_counter() - started)
        disk = on_disk(Path(folder))
    envs.close()
    size = buffer.n_transitions * buffer.storage.layout.transition_bytes
    return {
        "transitions": buffer.n_transitions,
        "priority": priority,
        "first_seconds": round(seconds[0], 3),
        "pause_seconds": round(median(seconds[1:]), 3),
        "longest": round(max(seconds[1:]), 3),
        "disk_over_buffer": round(disk / size, 3),
        "buffer_megabytes": round(size / 1e6, 1),
    }


def fill(buffer: HerReplayBuffer, transitions: int) -> None:
    """Store random episodes of the right shapes."""
    storage, rng = buffer.storage, np.random.default_rng(0)
    layout = storage.layout
    rows, last_obs = np.zeros(EPISODE, layout.row_dtype), np.zeros((), layout.observation_dtype)
    for array in [*(rows["obs"][key] for key in layout.observation_dtype.names or ()), rows["action"], rows["reward"]]:
        if array.dtype == np.float32:
            array[:] = rng.standard_normal(array.shape)
    next_achieved_goals = np.zeros(EPISODE, layout.achieved_dtype)
    for _ in range(transitions // EPISODE):
        append_episode(storage, rows, last_obs, next_achieved_goals)


def on_disk(folder: Path) -> int:
    """Return the bytes of all files."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


def share(name: str, words: tuple[str, ...]) -> dict:
    """Run `rlher train` and return the share of the wall-clock time that checkpoints take."""
    spent: list[float] = []
    timed = {each: getattr(Checkpointer, each) for each in ("save_if_due", "ensure_saved")}

    def timing(method):
        def run(self: Checkpointer) -> None:
            started = time.perf_counter()
            method(self)
            spent.append(time.perf_counter() - started)

        return run

    for each, method in timed.items():
        setattr(Checkpointer, each, timing(method))
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            started = time.perf_counter()
            rlher(["train", *words, "threads=1", "tensorboard=false", "progress=false"])
            took = time.perf_counter() - started
        finally:
            os.chdir(before)
            for each, method in timed.items():
                setattr(Checkpointer, each, method)
    return {"run": name, "seconds": round(took, 1), "checkpoints": round(sum(spent) / took, 4)}


if __name__ == "__main__":
    main()
