"""Train, evaluate, tune, compare and show goal-reaching agents with Hindsight Experience Replay."""

__version__ = "0.1.0"
