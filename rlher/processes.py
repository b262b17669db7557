"""Processes that begin where a clean one was, with what is slow to import already there."""

import multiprocessing
from collections.abc import Iterable
from typing import Any


def forked_clean(preload: Iterable[str] = ()) -> Any:
    """Return the multiprocessing context whose processes are forked from a server that has run nothing.

    A process that ran torch may hang where it is forked itself, and one that is spawned imports everything again. Where
    the system has no such server (Windows), they are spawned.

    :param preload: modules the server imports before its first process; one that runs already imports no more.
    """
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if preload:
        context.set_forkserver_preload(list(preload))
    return context
