"""Run many training runs side by side: sweeps, worker processes and tasks of Ray, the progress table."""
