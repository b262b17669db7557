"""What results depend on besides their inputs: the global random number generators, and torch's number of threads."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch as th


def get_rng_state() -> dict[str, Any]:
    """Return the state of the global generators. Generators of GPUs are included only if this process uses a GPU."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),
        "torch": th.get_rng_state(),
        "cuda": th.cuda.get_rng_state_all() if th.cuda.is_initialized() else [],
    }


def set_rng_state(state: Mapping[str, Any]) -> None:
    """Set the global generators to a state from :func:`get_rng_state`, whose arrays may be lists, as in JSON."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(state["numpy"])
    th.set_rng_state(th.as_tensor(state["torch"], dtype=th.uint8))
    if state["cuda"] and len(state["cuda"]) == th.cuda.device_count():
        th.cuda.set_rng_state_all([th.as_tensor(device, dtype=th.uint8) for device in state["cuda"]])


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Restore the global generators at the end of the block."""
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch use this number of threads within the block. Sums by several threads may differ in the last digit."""
    before = th.get_num_threads()
    th.set_num_threads(number)
    try:
        yield
    finally:
        th.set_num_threads(before)


def set_random_seed(seed: int) -> None:
    """Seed the global generators (torch's on the CPU), for environments that draw from them."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    th.random.default_generator.manual_seed(seed)
