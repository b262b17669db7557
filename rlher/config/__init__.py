"""Declare the config keys of every command, and compose configs from files and overrides."""
