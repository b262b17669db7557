"""Choosing the number of torch threads by a short measurement."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch as th
from torch import nn

AVAILABLE = th.get_num_threads()
"""Threads that torch starts with; an earlier run in this process may have set another number since."""

CPU = th.device("cpu")

MAX_TIME_RATIO = 0.65
"""All threads must need at most this share of one thread's time: on a busy machine, threads that wait for each other
cost far more than they gain on an idle one, and the rest of a step can use the other cores."""


def choose_threads(
    batch_size: int,
    net_arch: list[int],
    busy: int = 0,
    linear: Callable[..., th.Tensor] = nn.functional.linear,
    bf16: bool = False,
    min_gain: float = 0.0,
) -> tuple[int, str]:
    """Choose between one thread and all that are left, by timing a network forward and backward.

    It draws no random numbers and leaves the number of threads unchanged.

    :param busy: available ones that environments use at the same time.
    :param linear: as in :func:`time_network`.
    :param bf16: likewise.
    :param min_gain: seconds that all threads must save.
    :return: the number, and a line with the measurement.
    """
    if AVAILABLE == 1:
        return 1, "threads 1: only one is available"
    available = AVAILABLE - busy
    if available <= 1:
        return 1, "threads 1: environments use the other cores"
    before = th.get_num_threads()
    one, many = (_time(threads, batch_size, net_arch, CPU, linear, bf16) for threads in (1, available))
    th.set_num_threads(before)
    chosen = available if many < min(MAX_TIME_RATIO * one, one - min_gain) else 1
    return chosen, f"threads {chosen}: a network took {1e3 * one:.2f} ms with 1 and {1e3 * many:.2f} with {available}"


def _time(threads: int, *arguments: Any) -> float:
    th.set_num_threads(threads)
    return time_network(*arguments)


def time_network(
    batch_size: int,
    net_arch: list[int],
    device: th.device = CPU,
    linear: Callable[..., th.Tensor] = nn.functional.linear,
    bf16: bool = False,
) -> float:
    """Return the median seconds of a forward and a backward pass.

    The minimum would ignore other load on the machine.

    :param linear: multiplies inputs and a layer's weight.
    :param bf16: compute in bf16, as the losses with ``precision="bf16"``.
    """
    widths = [net_arch[0] if net_arch else 1, *net_arch]
    weights = [
        th.full((out, into), 0.01, requires_grad=True, device=device)
        for into, out in zip(widths, net_arch, strict=False)
    ]
    seconds = []
    for _ in range(21):
        started = time.perf_counter()
        x = th.ones(batch_size, widths[0], device=device)
        with th.autocast(device.type, th.bfloat16, enabled=bf16, cache_enabled=False):
            for weight in weights:
                x = nn.functional.relu(linear(x, weight))
        if weights:
            th.autograd.grad(x.float().sum(), weights)
        if device.type == "cuda":
            th.cuda.synchronize(device)
        seconds.append(time.perf_counter() - started)
    return median(seconds)
