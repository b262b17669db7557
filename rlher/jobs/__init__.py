"""Train many runs side by side: sweeps, worker processes, Ray tasks and the progress table."""
