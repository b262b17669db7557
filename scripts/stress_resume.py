"""Kill training runs at random instants, resume them, and compare with runs that nobody disturbed.

`python scripts/torture.py [--minutes 10] [--seed 0] [--jobs 2]` trains short runs of several kinds, each twice with the
same seed: once in peace, once being killed (SIGKILL), stopped (SIGTERM; twice, which does not wait for the step's end;
to every process, as a batch system sends it), paused (SIGSTOP, SIGCONT) or given a file size limit that no checkpoint
fits in, at a random moment, and resumed until it is done. Then weights, optimisers, evaluations.csv and result.json
must be the same to the last bit, wall-clock columns aside, and after every kill all checkpoints are held against their
checksums. It prints a table, and exits with 1 on any difference.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from same_run import differences

from rlher.runs.checkpoint_store import Damaged, newest_first, verify

COMMON = (
    "total_timesteps=900 checkpoint.every=250 eval.freq=150 eval.episodes=2 eval.final_episodes=3 algo.batch_size=32 "
    "algo.net_arch=[32,32] algo.learning_starts=100 tensorboard=false threads=1 progress=false"
)
KINDS = {
    "sac FetchReach": "algo=sac env=FetchReach-v4",
    "sac FetchReach, 4 envs": "algo=sac env=FetchReach-v4 n_envs=4 her.goal_selection_strategy=episode "
    "total_timesteps=902",
    "ddpg FetchReach, energy": "algo=ddpg env=FetchReach-v4 her.priority=energy normalize.enabled=false",
    "td3 FetchReach, td_error": "algo=td3 env=FetchReach-v4 her.priority=td_error her.goal_selection_strategy=final",
    "tqc parking, small buffer": "algo=tqc env=parking-classic algo.buffer_size=400 her.goal_selection_strategy=random",
    "crossq FetchReach": "algo=crossq env=FetchReach-v4 her.goal_selection_strategy=geometric",
    "dqn BitFlipping": "algo=dqn env=BitFlipping-v0 her.goal_selection_strategy=mix her.n_steps=2",
    "dqn BitFlipping, td_error, 4 envs": "algo=dqn env=BitFlipping-v0 her.priority=td_error n_envs=4 vec_env=dummy",
    "qrdqn BitFlipping, sb3": "algo=qrdqn env=BitFlipping-v0 engine=sb3 normalize.enabled=false",
    "sac BitFlipping, linear": "algo=sac env=BitFlipping-v0 env.continuous=true algo.learning_rate_schedule=linear",
}
WAYS = ("SIGKILL", "SIGKILL", "SIGTERM", "SIGTERM twice", "SIGTERM to all", "pause", "disk full")
FILE_LIMIT = 6_000  # bytes: less than any model's weights


@dataclass
class Tally:
    """What happened."""

    kills: Counter = field(default_factory=Counter)
    resumes: int = 0
    runs: Counter = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def main() -> int:
    """Torture for a while and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kinds", default="", help="only kinds whose name has this in it")
    parser.add_argument("--keep", type=Path, help="folder in which runs that came to something else are kept")
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    kinds = {name: words for name, words in KINDS.items() if options.kinds in name}
    tally, until = Tally(), time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        jobs = [
            pool.submit(work, Path(folder) / str(job), kinds, random.Random(seed + job), until, tally, options.keep)
            for job in range(options.jobs)
        ]
        for job in jobs:
            job.result()
    report(tally, seed)
    return 1 if tally.differences or tally.unreadable else 0


def work(
    folder: Path, kinds: dict[str, str], rng: random.Random, until: float, tally: Tally, keep: Path | None
) -> None:
    """Torture one kind of run after another, in random order."""
    while time.monotonic() < until:
        for name in rng.sample(list(kinds), len(kinds)):
            if time.monotonic() < until:
                found = torture(folder, name, kinds[name], rng, tally)
                tally.differences += found
                if keep and found:
                    shutil.copytree(folder, keep / f"{name}-{time.time_ns()}")


def torture(folder: Path, name: str, words: str, rng: random.Random, tally: Tally) -> list[str]:
    """Train the same run in peace and under fire, and list in what they differ."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [*COMMON.split(), *words.split(), f"seed={rng.randrange(1000)}"]
    began = time.monotonic()
    peace = start(folder / "peace", ["train", *command])
    if code := peace.wait():
        return [f"{name}: the undisturbed run ended with {code}: {peace.said()}"]
    took = time.monotonic() - began
    fire = start(folder / "fire", ["train", *command], limited := rng.random() < 0.15)
    while True:
        way = "disk full" if limited else rng.choice(WAYS[:-1])
        ended = fire.end_somehow(way, rng.uniform(0, took), tally)
        fire.note(f"torture: {'it ended by itself' if ended else way}, exit code {fire.code}")
        tally.unreadable += broken(folder / "fire")
        if ended and not limited and fire.finished():
            break
        if ended and not limited and fire.code == 2 and "there is no run" not in fire.said():
            return [f"{name}: {fire.said()}"]
        begun = list((folder / "fire").glob("logs/*/*/config.yaml"))
        limited = rng.random() < 0.15
        tally.resumes += bool(begun)
        fire = start(folder / "fire", ["train", "--resume"] if begun else ["train", *command], limited)
    tally.runs[name] += 1
    one, two = (next((folder / each).glob("logs/*/*_1")) for each in ("peace", "fire"))
    return [f"{name}, {' '.join(command)}: {each}" for each in differences(one, two)]


@dataclass
class Child:
    """A training process, in a process group of its own."""

    process: multiprocessing.process.BaseProcess
    folder: Path
    code: int | None = None

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        self.process.join()
        self.code = self.process.exitcode
        return self.code or 0

    def said(self) -> str:
        """Return the end of what it printed."""
        return (self.folder / "output.txt").read_text()[-600:]

    def note(self, line: str) -> None:
        """Add a line to what it printed."""
        with (self.folder / "output.txt").open("a") as output:
            output.write(f"{line}\n")

    def finished(self) -> bool:
        """Tell whether the run is finished."""
        return any(
            json.loads(result.read_text())["status"] == "finished"
            for result in self.folder.glob("logs/*/*/result.json")
        )

    def end_somehow(self, way: str, after: float, tally: Tally) -> bool:
        """Disturb it after some seconds; return whether it came to its end by itself."""
        self.process.join(after)
        if self.process.exitcode is not None or way == "disk full":
            tally.kills[way] += way == "disk full"
            self.wait()
            return True
        tally.kills[way] += 1
        with contextlib.suppress(ProcessLookupError):  # it came to its end this very moment
            self._disturb(way, after)
        self.wait()
        return False

    def _disturb(self, way: str, after: float) -> None:
        group, number = self.process.pid or 0, {"SIGKILL": signal.SIGKILL, "pause": signal.SIGSTOP}
        if way == "SIGTERM to all":
            os.killpg(group, signal.SIGTERM)
        else:
            os.kill(group, number.get(way, signal.SIGTERM))
        if way == "SIGTERM twice":
            time.sleep(after % 0.3)
            os.kill(group, signal.SIGTERM)
        if way == "pause":
            time.sleep(0.5)
            os.kill(group, signal.SIGCONT)
            self.process.join(after / 2)
            self.process.kill()


def start(folder: Path, words: list[str], limited: bool = False) -> Child:
    """Begin a command of rlher in that folder; the slow imports were done by the server it is forked from."""
    folder.mkdir(parents=True, exist_ok=True)
    process = SERVER.Process(target=child, args=(str(folder), words, limited))
    process.start()
    return Child(process, folder)


def child(folder: str, words: list[str], limited: bool) -> None:
    """Run one command line."""
    os.setpgid(0, 0)
    os.chdir(folder)
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if limited:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
    from rlher.cli.main import main as rlher

    sys.exit(rlher(words))


def broken(folder: Path) -> list[str]:
    """Hold all checkpoints of the runs in a folder against their checksums."""
    found = []
    for parent in folder.glob("logs/*/*/checkpoints"):
        for checkpoint in newest_first(parent):
            try:
                verify(checkpoint)
            except Damaged as error:
                found.append(str(error))
    return found


def report(tally: Tally, seed: int) -> None:
    """Print the table."""
    for line in (*tally.unreadable, *tally.differences):
        print(line)
    print(f"seed {seed}")
    print("| runs compared | " + " | ".join(sorted(tally.kills)) + " | kills | resumes | unreadable | differences |")
    print("|--" * (len(tally.kills) + 5) + "|")
    numbers = [sum(tally.runs.values()), *(tally.kills[way] for way in sorted(tally.kills))]
    numbers += [sum(tally.kills.values()), tally.resumes, len(tally.unreadable), len(tally.differences)]
    print("| " + " | ".join(map(str, numbers)) + " |")
    print("runs: " + ", ".join(f"{name} {count}" for name, count in sorted(tally.runs.items())))


SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["rlher.training.resume", "sb3_contrib", "hydra", "gymnasium_robotics", "highway_env"])

if __name__ == "__main__":
    sys.exit(main())
