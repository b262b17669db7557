"""Fuzz the commands with damaged files and random command lines: `python scripts/fuzz.py --inputs 2000 --seed 0`.

Prints each input that ends in a traceback, hangs, or changes a file it should not, with the flags that repeat it.
"""

import argparse
import logging
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.fuzzing.checks import Violation
from tests.support.fuzzing.command_lines import compose, random_command_line
from tests.support.fuzzing.workspace import Workspace

SLOW = 5
"""Inputs that take longer are printed, in seconds."""


def main() -> int:
    """Try the inputs, and return the exit code: 1 if there is a violation, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=2000, help="number of inputs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first input; the next ones count up")
    parser.add_argument("--only", choices=("files", "words"), help="only damaged files, or only command lines")
    options = parser.parse_args()
    violations: Counter[str] = Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_STATE_HOME"] = name  # of the key that signs runs
        (folder := Path(name) / "work").mkdir()
        workspace = Workspace.make(folder)
        (empty := Path(name) / "empty").mkdir()
        for seed in range(options.seed, options.seed + options.inputs):
            input_started = time.monotonic()
            try:
                try_input(Random(seed), workspace, empty, options.only)
            except Violation as error:
                cause = describe_cause(error)
                violations[cause] += 1
                if violations[cause] == 1:
                    print(f"--seed {seed} --inputs 1: {str(error)[:600]}\n    {cause}", flush=True)
            finally:
                logging.disable(logging.NOTSET)  # Hydra disables it
            if (seconds := time.monotonic() - input_started) > SLOW:
                print(f"--seed {seed} --inputs 1: {seconds:.0f} s", flush=True)
    seconds = time.monotonic() - started
    print(f"{options.inputs:,} inputs in {seconds:.0f} s: {violations.total()} violations, {len(violations)} causes")
    return min(len(violations), 1)


def try_input(rng: Random, workspace: Workspace, empty: Path, only: str | None) -> None:
    """Try a command line or a damaged file.

    :param empty: folder that command lines are composed in.
    :param only: ``"files"`` or ``"words"`` (command lines); None: either.
    """
    if rng.random() < 0.4 if only is None else only == "words":
        compose(random_command_line(rng), empty)
    else:
        workspace.damage_and_read(rng)


def describe_cause(error: Violation) -> str:
    """Return where the exception behind a violation was raised, so that each cause is printed once."""
    if error.__cause__ is None:
        return str(error)[-200:]
    where = traceback.extract_tb(error.__cause__.__traceback__)[-1]
    return f"{type(error.__cause__).__name__} {where.filename}:{where.lineno}"


if __name__ == "__main__":
    sys.exit(main())
