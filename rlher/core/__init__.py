"""Errors, messages, safe file access and statistics that every other package uses."""
