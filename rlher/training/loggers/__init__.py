"""Where the numbers of a training run are logged."""
