"""One file per command of `rlher`."""
