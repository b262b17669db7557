"""The commands of `rlher`, a module each: see :mod:`rlher.cli.command`."""
