"""Trained agents: load, play, evaluate and record them."""
