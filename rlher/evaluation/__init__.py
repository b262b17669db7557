"""Trained agents: load, play, evaluate, record and export them."""
