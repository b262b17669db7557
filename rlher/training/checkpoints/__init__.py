"""Checkpoints: their files, their content, and the callback that writes and restores them."""
