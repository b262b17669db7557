"""Keep the global random number generators unchanged."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch as th


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Restore the global generators of Python, NumPy and torch at the end of the block."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = range(th.cuda.device_count()) if th.cuda.is_initialized() else ()
    try:
        with th.random.fork_rng(devices=list(devices)):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def set_random_seed(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch (on the CPU), for environments that draw from them."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    th.random.default_generator.manual_seed(seed)
