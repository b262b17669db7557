"""Where the milliseconds of an update of DDPG go: three layers of 256, batch 256, float32, one thread.

    python scripts/profile_update.py [--updates 300]

The time of an update is measured without the profiler (median of the clock's). torch's profiler then divides it: the
operators of each part are summed, and the rest is Python and the dispatch of operators. The machine must be idle.
"""

import argparse
import statistics
import time
from collections import Counter

import torch as th
from bench_train import Work, build
from torch.profiler import ProfilerActivity, profile, record_function

WORK = Work("ddpg", "FetchReach-v4", [256] * 3, 256, 0, {})
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "mkl::_mkl_linear")
STEPS = {"aten::_fused_adam_": "Adam", "aten::_foreach_add_": "Adam", "aten::_foreach_lerp_": "target network"}
PARTS = ("matrix products", "elementwise, losses", "Adam", "target network", "sampling the batch", "rest")


def part_of(name: str) -> str | None:
    """Return the part that an event of the profiler belongs to; None: it is counted elsewhere."""
    if name in PRODUCTS:
        return "matrix products"
    if name == "sample":
        return "sampling the batch"
    if name.startswith(("aten::", "cpp_fused", "graph_")):
        return STEPS.get(name, "elementwise, losses")
    return None


def measure(compiled: bool, updates: int) -> dict[str, float]:
    """Return the milliseconds of each part, and of a whole update."""
    model = build(WORK, "rlher", capacity=100_000, options={"compile": compiled, "target_q_bounds": (-20, 0)})
    times = []
    for _ in range(updates):
        started = time.perf_counter()
        model.train(1, WORK.batch)
        times.append(1e3 * (time.perf_counter() - started))
    found: Counter[str] = Counter()
    sample = model.replay_buffer.sample

    def recorded(*arguments: object, **keywords: object) -> object:
        with record_function("sample"):
            return sample(*arguments, **keywords)

    model.replay_buffer.sample = recorded
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(updates):
            model.train(1, WORK.batch)
    for event in profiler.key_averages():
        if (part := part_of(event.key)) is not None:
            found[part] += (
                (event.cpu_time_total if event.key == "sample" else event.self_cpu_time_total) / 1e3 / updates
            )
    whole = statistics.median(times[len(times) // 2 :])
    return {part: found[part] for part in PARTS[:-1]} | {"rest": whole - sum(found.values()), "an update": whole}


def main() -> None:
    """Print the table for this machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=300)
    updates = parser.parse_args().updates
    th.set_num_threads(1)
    th.set_flush_denormal(True)
    columns = [measure(compiled, updates) for compiled in (False, True)]
    print(f"{'ms':<22}{'uncompiled':>12}{'compiled':>12}")
    for part in columns[0]:
        print(f"{part:<22}", *(f"{column[part]:11.2f}" for column in columns))
    a, b = th.rand(256, 256), th.rand(256, 256)
    started = time.perf_counter()
    for _ in range(2000):
        th.mm(a, b)
    rate = 2 * 256**3 * 2000 / (time.perf_counter() - started)
    print(f"a product of 256³ runs at {rate / 1e9:.0f} GFLOP/s; 0.71 GFLOP then take {0.71e12 / rate:.2f} ms")


if __name__ == "__main__":
    main()
