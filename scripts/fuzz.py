"""Try thousands of damaged files and hostile command lines: `python scripts/fuzz.py --inputs 2000 --seed 0`.

Prints every input that ends in a traceback, hangs, or changes what it should not, and how to try that one again.
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
    """Try them and return the number of those that broke the rule, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=2000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the first; the next ones count up")
    parser.add_argument("--only", choices=("files", "words"), help="one kind alone")
    options = parser.parse_args()
    broken: Counter[str] = Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        (folder := Path(name) / "work").mkdir()
        workspace = fuzzing.Workspace.make(folder)
        (empty := Path(name) / "empty").mkdir()
        for seed in range(options.seed, options.seed + options.inputs):
            began = time.monotonic()
            try:
                try_one(Random(seed), workspace, empty, options.only)
            except fuzzing.Broken as error:
                kind = kind_of(error)
                broken[kind] += 1
                if broken[kind] == 1:
                    print(f"--seed {seed} --inputs 1: {str(error)[:600]}\n    {kind}", flush=True)
            finally:
                logging.disable(logging.NOTSET)  # Hydra's doing, once a command line
            if time.monotonic() - began > 5:
                print(f"--seed {seed} --inputs 1: {time.monotonic() - began:.0f} s", flush=True)
    seconds = time.monotonic() - started
    print(f"{options.inputs:,} inputs in {seconds:.0f} s: {sum(broken.values())} broke the rule, in {len(broken)} ways")
    return min(len(broken), 1)


def try_one(rng: Random, workspace: fuzzing.Workspace, empty: Path, only: str | None) -> None:
    """Try a command line or a damaged file."""
    if rng.random() < 0.4 if only is None else only == "words":
        fuzzing.try_command_line(fuzzing.command_line(rng), empty)
        return
    path = workspace.file(rng)
    content = fuzzing.damaged(rng, path, workspace)
    workspace.try_damage(path, content, rng.choice(workspace.readers[path]))


def kind_of(error: fuzzing.Broken) -> str:
    """Say where the error behind it was raised, so that what has one cause is told once."""
    if error.__cause__ is None:
        return str(error)[-200:]
    where = traceback.extract_tb(error.__cause__.__traceback__)[-1]
    return f"{type(error.__cause__).__name__} {where.filename}:{where.lineno}"


if __name__ == "__main__":
    sys.exit(main())
