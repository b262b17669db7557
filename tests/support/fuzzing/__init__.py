"""Fuzzing of the commands: damaged files and random command lines, used by test_fuzz.py and scripts/fuzz.py."""
