"""Checkpoints: their files, their content, and when they are written and restored."""
