"""Errors, messages, files, workers and statistics for all packages. rlher.core imports no other package of rlher."""
