"""Stress test of resuming: interrupt training runs at random moments, resume them, compare with uninterrupted runs.

`python scripts/stress_resume.py [--minutes 10] [--seed 0] [--jobs 2]` trains short runs of several kinds, each twice
with the same seed: once uninterrupted; once interrupted at random moments, and resumed until it is finished. It is

* killed (SIGKILL), stopped (SIGTERM; twice, which does not wait for the end of the step; to every process, as batch
  systems send it), paused (SIGSTOP, SIGCONT, SIGKILL), or its terminal is closed,
* given a file size limit below the size of a checkpoint, or a disk with little space (where one can be mounted),
* ended by its environment, which calls ``sys.exit(0)``, or by moving its folder away, which must not be made again,
* robbed of the process that plays its evaluation, which must not end it.

Weights, optimizers, evaluations.csv and result.json must be identical, except for wall-clock times, and all checkpoints
must always be readable. It prints a table and exits with 1 if there is any difference.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from same_run import differences

COMMON = (
    "total_timesteps=900 checkpoint.freq=250 eval.freq=150 eval.episodes=2 eval.final_episodes=3 algo.batch_size=32 "
    "algo.net_arch=[32,32] algo.learning_starts=100 tensorboard=false threads=1 progress=false"
)
KINDS = {
    "sac FetchReach": "algo=sac env=FetchReach-v4",
    "sac FetchReach, 4 envs": "algo=sac env=FetchReach-v4 n_envs=4 vec_env=subproc "
    "her.goal_selection_strategy=episode total_timesteps=902",
    "ddpg FetchReach, energy": "algo=ddpg env=FetchReach-v4 her.priority=energy normalize.enabled=false",
    "td3 FetchReach, td_error": "algo=td3 env=FetchReach-v4 her.priority=td_error her.goal_selection_strategy=final",
    "tqc parking, small buffer": "algo=tqc env=parking-classic algo.buffer_size=400 her.goal_selection_strategy=random",
    "tqc FetchReach": "algo=tqc env=FetchReach-v4 her.goal_selection_strategy=geometric",
    "dqn BitFlipping": "algo=dqn env=BitFlipping-v0 her.goal_selection_strategy=mix her.n_steps=2",
    "dqn BitFlipping, td_error, 4 envs": "algo=dqn env=BitFlipping-v0 her.priority=td_error n_envs=4 vec_env=dummy",
    "dqn BitFlipping, not normalised": "algo=dqn env=BitFlipping-v0 normalize.enabled=false",
    "ddpg FetchReach, demonstrations": "algo=ddpg env=FetchReach-v4 demos={demos} demos.bc_weight=1 "
    "demos.pretrain_updates=150 n_envs=2 vec_env=dummy",
    "ddpg FetchReach, evaluation processes": "algo=ddpg env=FetchReach-v4 eval.workers=2 eval.episodes=8 eval.freq=100",
    "sac FetchReach, environment process": "algo=sac env=FetchReach-v4 vec_env=subproc",
    "dqn BitFlipping, evaluation processes": "algo=dqn env=BitFlipping-v0 eval.workers=1 eval.episodes=30 eval.freq=40",
    "sac BitFlipping, linear": "algo=sac env=BitFlipping-v0 env.kwargs.continuous=true "
    "algo.learning_rate_schedule=linear",
    "sac line, may exit": "algo=sac env=FaultOnceFileExists-v0 env.modules=[hostile_envs] "
    "env.kwargs={how:exit,once:exit_now,where:worker}",  # every process of this test is somebody's worker
}
SIGNALS = ("SIGKILL", "SIGKILL", "SIGTERM", "SIGTERM twice", "SIGTERM to all", "pause", "terminal closed")
MOVED, EXIT, EVALUATION_KILLED = "folder moved", "SystemExit", "evaluation killed"
FILE_SIZE, SPACE = "file size limit", "disk full"
LIMITS = (FILE_SIZE, SPACE)
FILE_SIZE_LIMIT = 6_000  # bytes; less than the weights of any model
DISK_SIZE = "32m"
RUN, RUBBISH = "logs/*/*/config.yaml", "rubbish"
EXIT_SECONDS = 60


@dataclass
class Tally:
    """Counts of interruptions, resumes and compared runs, and what was wrong."""

    interruptions: Counter = field(default_factory=Counter)
    resumes: int = 0
    runs: Counter = field(default_factory=Counter)
    damaged: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def main() -> int:
    """Run the stress test for some minutes and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kinds", default="", help="only kinds whose name contains this")
    parser.add_argument("--keep", type=Path, help="folder to copy runs that differ to")
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    kinds = {name: words for name, words in KINDS.items() if options.kinds in name}
    sys.path.append(str(Path(__file__).parents[1] / "tests/support"))  # of FaultOnceFileExists
    state = tempfile.TemporaryDirectory()
    os.environ["XDG_STATE_HOME"] = state.name  # of the key that signs runs
    imports = SERVER.Process(target=int)  # the first process waits for the server's imports, which take no run's time
    imports.start()
    imports.join()
    tally, deadline = Tally(), time.monotonic() + 60 * options.minutes
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        needs_demos = any("{demos}" in words for words in kinds.values())
        demos = collect_demonstrations(Path(folder) / "demos") if needs_demos else ""
        kinds = {name: words.replace("{demos}", demos) for name, words in kinds.items()}
        jobs = [
            pool.submit(
                run_kinds, Path(folder) / str(job), kinds, random.Random(seed + job), deadline, tally, options.keep
            )
            for job in range(options.jobs)
        ]
        for job in jobs:
            job.result()
    print_table(tally)
    return 1 if tally.differences or tally.damaged else 0


def collect_demonstrations(folder: Path) -> str:
    """Collect demonstrations of FetchReach and return their folder."""
    process = start(folder, ["collect", "env=FetchReach-v4", "--episodes", "5", "--output", "reach-v0"])
    if process.wait():
        raise RuntimeError(process.last_output())
    return str(folder / "reach-v0")


def run_kinds(
    folder: Path, kinds: dict[str, str], rng: random.Random, deadline: float, tally: Tally, keep: Path | None
) -> None:
    """Test one kind of run after another, in random order, until the deadline."""
    while time.monotonic() < deadline:
        for name in rng.sample(list(kinds), len(kinds)):
            if time.monotonic() < deadline:
                different = stress(folder, name, kinds[name], rng, tally)
                tally.differences += different
                if keep and different:
                    shutil.copytree(folder, keep / f"{name}-{time.time_ns()}")


def stress(folder: Path, name: str, words: str, rng: random.Random, tally: Tally) -> list[str]:
    """Train the same run uninterrupted and interrupted; return the differences."""
    shutil.rmtree(folder, ignore_errors=True)
    workers = f"eval.workers={rng.choice((0, 1))}"
    command = ["train", *COMMON.split(), *words.split(), workers, f"seed={rng.randrange(1000)}"]
    started = time.monotonic()
    reference = start(folder / "reference", command)
    if code := reference.wait():
        return [f"{name}: the uninterrupted run ended with {code}: {reference.last_output()}"]
    seconds = time.monotonic() - started
    (folder / "interrupted").mkdir()
    with small_disk(folder / "interrupted") as has_disk:
        ways = [
            *SIGNALS,
            MOVED,
            *([EXIT] * 3 if "exit" in name else []),
            *([EVALUATION_KILLED] if workers[-1] > "0" and "vec_env=subproc" not in words else []),
        ]
        problems = interrupt_until_finished(folder / "interrupted", command, ways, has_disk, seconds, rng, tally)
        if problems:
            return [f"{name}: {each}" for each in problems]
        tally.runs[name] += 1
        one, two = (next((folder / each).glob(RUN)).parent for each in ("reference", "interrupted"))
        return [f"{name}, {' '.join(command)}: {each}" for each in differences(one, two)]


def interrupt_until_finished(
    folder: Path, command: list[str], ways: list[str], has_disk: bool, seconds: float, rng: random.Random, tally: Tally
) -> list[str]:
    """Train a run, interrupt and resume it until it is finished; return what went wrong.

    :param seconds: duration of the uninterrupted run.
    """
    problems: list[str] = []
    while True:
        has_run = any(folder.glob(RUN))
        limit = rng.choice(LIMITS if has_disk else LIMITS[:1]) if rng.random() < 0.15 else ""
        way = limit or rng.choice(ways)
        if limit == SPACE:
            fill_disk(folder, free=rng.randrange(250_000))
        tally.resumes += has_run
        child = start(
            folder, ["train", "--resume"] if has_run else command, limit, on_terminal=way == "terminal closed"
        )
        ended = child.interrupt(way, rng.uniform(0, seconds), tally, problems)
        (folder / RUBBISH).unlink(missing_ok=True)
        child.append_output(f"stress test: {'it ended by itself' if ended else way}, exit code {child.code}")
        tally.damaged += damaged_checkpoints(folder)
        if problems or (ended and not limit and child.finished()):
            return problems
        if ended and not limit and child.code == 2 and any(folder.glob(RUN)):
            return [child.last_output()]


@dataclass
class Child:
    """A training process with its own process group.

    :param terminal: its controlling terminal; None: it has none.
    """

    process: multiprocessing.process.BaseProcess
    folder: Path
    terminal: int | None = None
    code: int | None = None

    def wait(self) -> int:
        """Wait until it ends and return its exit code."""
        self.process.join()
        self.code = self.process.exitcode
        return self.code or 0

    def last_output(self) -> str:
        """Return the end of its output."""
        return (self.folder / "output.txt").read_text()[-600:]

    def append_output(self, line: str) -> None:
        """Add a line to its output file."""
        with (self.folder / "output.txt").open("a") as output:
            output.write(f"{line}\n")

    def finished(self) -> bool:
        """Return whether its run is finished."""
        return any(
            json.loads(result.read_text())["status"] == "finished"
            for result in self.folder.glob("logs/*/*/result.json")
        )

    def interrupt(self, way: str, seconds: float, tally: Tally, problems: list[str]) -> bool:
        """Interrupt it after some seconds and wait until it ends; return whether it ended by itself.

        :param problems: what went wrong is added.
        """
        self._wait_for(seconds)
        if self.process.exitcode is not None or way in LIMITS:
            tally.interruptions[way] += way in LIMITS
            self._close_terminal()
            self.wait()
            return True
        tally.interruptions[way] += 1
        if way == MOVED:
            problems += self._move_folder()
        elif way == EXIT:
            problems += self._exit()
        elif way == EVALUATION_KILLED:
            self._kill_workers()
        else:
            with contextlib.suppress(ProcessLookupError):  # the process has just ended
                self._send_signals(way, seconds)
        self.wait()
        return way == EVALUATION_KILLED

    def _wait_for(self, seconds: float) -> None:
        """Wait some seconds, or until it ends, and read what it writes to its terminal."""
        end = time.monotonic() + seconds
        while self.process.exitcode is None and time.monotonic() < end:
            self.process.join(0.05)
            if self.terminal is not None:
                with contextlib.suppress(OSError):
                    while select.select([self.terminal], [], [], 0)[0]:
                        self.append_output(os.read(self.terminal, 4096).decode(errors="replace"))

    def _close_terminal(self) -> None:
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None

    def _send_signals(self, way: str, seconds: float) -> None:
        group, signals = self.process.pid or 0, {"SIGKILL": signal.SIGKILL, "pause": signal.SIGSTOP}
        if way == "terminal closed":
            self._close_terminal()
        elif way == "SIGTERM to all":
            os.killpg(group, signal.SIGTERM)
        else:
            os.kill(group, signals.get(way, signal.SIGTERM))
        if way == "SIGTERM twice":
            time.sleep(seconds % 0.3)
            os.kill(group, signal.SIGTERM)
        if way == "pause":
            time.sleep(0.5)
            os.kill(group, signal.SIGCONT)
            self.process.join(seconds / 2)
            self.process.kill()

    def _move_folder(self) -> list[str]:
        """Move its run folder away, wait until it ends, and move the folder back."""
        for run in [config.parent for config in self.folder.glob(RUN)]:
            moved = run.rename(self.folder / "moved")
            code = self.wait()
            if run.exists():
                return [f"{run} was made again: {[path.name for path in run.iterdir()]}"]
            moved.rename(run)
            # 1: a file cannot be written; 2: it was resumed, and had not read its checkpoint yet.
            if code not in (1, 2) and not self.finished():
                return [f"exit code {code} after the folder was moved: {self.last_output()}"]
        return []

    def _exit(self) -> list[str]:
        """Let its environment call ``sys.exit(0)``, and wait until it ends."""
        (self.folder / "exit_now").touch()
        self.process.join(EXIT_SECONDS)
        (self.folder / "exit_now").unlink()
        if self.process.exitcode is None:
            self.process.kill()
            return [f"it goes on after SystemExit: {self.last_output()}"]
        if self.wait() == 0 and not self.finished():
            return [f"exit code 0 after SystemExit: {self.last_output()}"]
        return []

    def _kill_workers(self) -> None:
        """Kill all worker processes, which play evaluations: other runs are not interrupted in this way.

        A run that loses processes of its environments builds new ones, and so differs from an uninterrupted one.
        """
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self.process.pid).children(recursive=True):
                if "forkserver" in " ".join(process.cmdline()) and process.ppid() != self.process.pid:
                    process.kill()


def start(folder: Path, words: list[str], limit: str = "", on_terminal: bool = False) -> Child:
    """Start a command of rlher in a folder, forked from a server that has done the slow imports."""
    folder.mkdir(parents=True, exist_ok=True)
    master, terminal = os.openpty() if on_terminal else (None, None)
    name = os.ttyname(terminal) if terminal is not None else ""
    words = [*words, "progress=true"] if on_terminal else words
    process = SERVER.Process(target=run_command, args=(str(folder), words, limit, name))
    process.start()
    if terminal is not None:
        while not (folder / "started").exists() and process.exitcode is None:  # else the terminal would be gone
            time.sleep(0.01)
        os.close(terminal)
        (folder / "started").unlink(missing_ok=True)
    return Child(process, folder, master)


def run_command(folder: str, words: list[str], limit: str, terminal: str) -> None:
    """Run a command of rlher in this process."""
    os.chdir(folder)
    if terminal:
        os.setsid()
        output = os.open(terminal, os.O_RDWR)  # becomes the controlling terminal
        Path("started").touch()
    else:
        os.setpgid(0, 0)
        output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if limit == FILE_SIZE:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE_LIMIT, FILE_SIZE_LIMIT))
    from rlher.cli.main import main as rlher

    sys.exit(rlher(words))


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mount a small file system on a folder, where that is permitted; yield whether it is."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_disk(folder: Path, free: int) -> None:
    """Leave about this many bytes of a disk free."""
    with (folder / RUBBISH).open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        file.truncate(max(file.tell() - free, 0))


def damaged_checkpoints(folder: Path) -> list[str]:
    """Return an error for each file of a checkpoint that cannot be read."""
    errors = []
    for file in folder.glob("logs/*/*/checkpoints/[0-9]*/*"):
        try:
            if file.suffix == ".json":
                json.loads(file.read_text())
            elif (damaged := zipfile.ZipFile(file).testzip()) is not None:
                raise ValueError(damaged)
        except (ValueError, zipfile.BadZipFile) as error:
            errors.append(f"{file}: {error}")
    return errors


def print_table(tally: Tally) -> None:
    """Print what was wrong, and the counts as a Markdown table."""
    for line in (*tally.damaged, *tally.differences):
        print(line)
    ways = " | ".join(sorted(tally.interruptions))
    print(f"| runs compared | {ways} | interruptions | resumes | damaged | differences |")
    print("|--" * (len(tally.interruptions) + 5) + "|")
    numbers = [sum(tally.runs.values()), *(tally.interruptions[way] for way in sorted(tally.interruptions))]
    numbers += [sum(tally.interruptions.values()), tally.resumes, len(tally.damaged), len(tally.differences)]
    print("| " + " | ".join(map(str, numbers)) + " |")
    print("runs: " + ", ".join(f"{name} {count}" for name, count in sorted(tally.runs.items())))


SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["rlher.training.trainer", "sb3_contrib", "hydra", "gymnasium_robotics", "highway_env"])

if __name__ == "__main__":
    sys.exit(main())
