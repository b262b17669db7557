"""Fewer garbage collections during imports, where they take a sixth of the time with Python's limit of 700 objects."""

import gc

MIN_OBJECTS = 400_000
"""New objects that start a collection; importing torch and Stable-Baselines3 leaves 220,000."""

USUAL = gc.get_threshold()


def postpone_collections() -> None:
    """Collect garbage seldom, until :func:`collect_as_usual`. For the program and its processes, not the library."""
    gc.set_threshold(MIN_OBJECTS)


def collect_as_usual() -> None:
    """End :func:`postpone_collections`: an environment may leave an image in a reference cycle at every step.

    What exists by then is left out of all collections, so call it between the imports and the first step.
    """
    if gc.get_threshold()[0] == MIN_OBJECTS:
        gc.freeze()
        gc.set_threshold(*USUAL)
