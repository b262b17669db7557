"""Fewer garbage collections, which take a sixth of the time of all imports with Python's limit of 700 objects.

Imported by the program, and by the server of its worker processes before anything else; not by the library.
"""

import gc

MIN_OBJECTS = 400_000
"""New objects that start a collection; importing torch and Stable-Baselines3 leaves 220,000."""

gc.set_threshold(MIN_OBJECTS)
