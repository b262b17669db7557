"""Try thousands of damaged files and hostile command lines: `python scripts/fuzz.py --inputs 2000 --seed 0`.

Prints every input that ends in a traceback, hangs, or changes a file that it must not change, and how to repeat it.
"""

import argparse
import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support import fuzzing


def main() -> int:
    """Try all inputs and return the exit code, 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=2000, help="number of inputs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first input; the next ones count up")
    parser.add_argument("--only", choices=("files", "words"), help="kind of input; default: both")
    options = parser.parse_args()
    failed: Counter[str] = Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        (folder := Path(name) / "work").mkdir()
        workspace = fuzzing.Workspace.make(folder)
        (empty := Path(name) / "empty").mkdir()
        for seed in range(options.seed, options.seed + options.inputs):
            began = time.monotonic()
            try:
                try_one(Random(seed), workspace, empty, options.only)
            except fuzzing.CheckFailed as error:
                kind = kind_of(error)
                failed[kind] += 1
                if failed[kind] == 1:
                    print(f"--seed {seed} --inputs 1: {str(error)[:600]}\n    {kind}", flush=True)
            finally:
                logging.disable(logging.NOTSET)  # Hydra disables logging
            if time.monotonic() - began > 5:
                print(f"--seed {seed} --inputs 1: {time.monotonic() - began:.0f} s", flush=True)
    seconds = time.monotonic() - started
    print(f"{options.inputs:,} inputs in {seconds:.0f} s: {sum(failed.values())} failed a check, in {len(failed)} ways")
    return min(len(failed), 1)


def try_one(rng: Random, workspace: fuzzing.Workspace, empty: Path, only: str | None) -> None:
    """Try a command line or a damaged file."""
    if rng.random() < 0.4 if only is None else only == "words":
        fuzzing.try_command_line(fuzzing.command_line(rng), empty)
        return
    path = workspace.file(rng)
    content = fuzzing.damaged(rng, path, workspace)
    workspace.try_damage(path, content, rng.choice(workspace.readers[path]))


def kind_of(error: fuzzing.CheckFailed) -> str:
    """Return where the error was raised, so that each cause is printed once."""
    if error.__cause__ is None:
        return str(error)[-200:]
    where = traceback.extract_tb(error.__cause__.__traceback__)[-1]
    return f"{type(error.__cause__).__name__} {where.filename}:{where.lineno}"


if __name__ == "__main__":
    sys.exit(main())
