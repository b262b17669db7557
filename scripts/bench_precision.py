"""Processor time of compiled updates in float32 and in bf16, and whether the rule is right here.

    python scripts/bench_precision.py [--updates 60] [--only "SAC 256x256 b256"]

The rule is `rlher.algos.precision.is_bf16_faster`. It is right if its choice takes at most 1.1 times the time of the
fastest. Updates run in one thread; the two take turns, so that a busy machine slows both. Medians are printed.
"""

import argparse
import time
from statistics import median
from typing import Any

import torch as th
from bench_train import Work, build

from rlher.algos.precision import is_bf16_faster
from rlher.core.machine import cpu_info

WORKS = (
    Work("sac", "FetchReach-v4", [256, 256], 256, 0, {}),
    Work("tqc", "FetchReach-v4", [128, 128], 256, 0, {}),
    Work("ddpg", "FetchReach-v4", [256] * 3, 256, 0, {}),
    Work("tqc", "FetchReach-v4", [512] * 3, 512, 0, {}),
)
CHOICES = {
    "float32": {"compile": True},
    "bf16": {"compile": True, "bf16": True},
}
TOLERANCE = 1.1


def update_times(work: Work, updates: int) -> dict[str, float]:
    """Return the median milliseconds of an update for each choice."""
    th._dynamo.reset()  # torch compiles a function for at most 8 models of a process
    models = {name: build(work, "rlher", capacity=10_000, options=each) for name, each in CHOICES.items()}
    times: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(updates + 5):  # the first ones compile
        for name, model in models.items():
            started = time.process_time()
            model.train(1, work.batch)
            if turn >= 5:
                times[name].append(1e3 * (time.process_time() - started))
    return {name: median(each) for name, each in times.items()}


def chosen(work: Work) -> str:
    """Return the choice of the rule for a work."""
    return "bf16" if is_bf16_faster(th.device("cpu"), work.batch, work.nets) else "float32"


def main() -> None:
    """Print the table for this machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=60, help="updates of each choice")
    parser.add_argument("--only", nargs="+", help="titles of works")
    arguments = parser.parse_args()
    th.set_num_threads(1)
    th.set_flush_denormal(True)
    shown = {"avx2", "avx512f", "avx512_bf16", "amx_bf16"} & set(cpu_info().get("flags", "").split())
    print(cpu_info().get("model name", "unknown CPU"))
    print("flags:", *sorted(shown), f"; torch {th.__version__}")
    print(f"\n{'ms of an update':<24}", *(f"{name:>18}" for name in CHOICES), "  rule")
    for work in WORKS:
        title = work.title.partition(",")[0]
        if arguments.only and title not in arguments.only:
            continue
        times, rule = update_times(work, arguments.updates), chosen(work)
        ratio = times[rule] / min(times.values())
        verdict = "right" if ratio <= TOLERANCE else f"wrong, {ratio:.2f} times the fastest"
        row: list[Any] = [f"{times[name]:18.2f}" if name in times else f"{'-':>18}" for name in CHOICES]
        print(f"{title:<24}", *row, f"  {rule}: {verdict}", flush=True)


if __name__ == "__main__":
    main()
