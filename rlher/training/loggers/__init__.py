"""Where the numbers of a training run are logged: files of the run folder, and tracking services."""
