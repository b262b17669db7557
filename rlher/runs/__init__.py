"""Run folders and what lies in them: config, models and checkpoints, written and read back safely."""
