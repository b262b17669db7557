"""Train, evaluate, tune, compare and show goal-reaching agents with Hindsight Experience Replay."""

__version__ = "0.1.0"

COMMAND = "RLHER_COMMAND"
"""Environment variable that holds the command line as it was typed, for the run folder."""
