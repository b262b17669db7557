"""The `rlher` command."""
