"""Run folders on disk: config, metadata and models."""
