"""How many threads torch is to compute with."""

import time
from statistics import median

import torch as th
from torch import nn

MOST = th.get_num_threads()  # what torch began with: a run of a sweep may have set another number since
ENOUGH = 0.65
"""Of one thread's time must more threads come down to: threads that wait for each other on a busy machine cost far more
than they gain on an idle one, and the rest of a step has use for the other cores."""


def fastest(batch_size: int, net_arch: list[int]) -> tuple[int, str]:
    """Choose between one thread and all that torch may use, by timing a network forward and backward.

    It draws no random numbers, and leaves the number of threads as it was.

    :return: the number, and a sentence that says why.
    """
    if MOST == 1:
        return 1, "1 thread: all there is"
    before = th.get_num_threads()
    one, many = _time(1, batch_size, net_arch), _time(MOST, batch_size, net_arch)
    th.set_num_threads(before)
    chosen = MOST if many < ENOUGH * one else 1
    return chosen, f"threads {chosen}: a network took {1e3 * one:.2f} ms with 1 and {1e3 * many:.2f} with {MOST}"


def _time(threads: int, batch_size: int, net_arch: list[int]) -> float:
    """Return the seconds of a forward and a backward pass, the median of several.

    The least would overlook what else the machine is doing.
    """
    th.set_num_threads(threads)
    widths = [net_arch[0] if net_arch else 1, *net_arch]
    weights = [th.full((out, into), 0.01, requires_grad=True) for into, out in zip(widths, net_arch, strict=False)]
    seconds = []
    for _ in range(21):
        started = time.perf_counter()
        x = th.ones(batch_size, widths[0])
        for weight in weights:
            x = nn.functional.relu(nn.functional.linear(x, weight))
        if weights:
            th.autograd.grad(x.sum(), weights)
        seconds.append(time.perf_counter() - started)
    return median(seconds)
