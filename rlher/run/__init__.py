"""Run folders on disk: config, metadata, models and checkpoints."""
