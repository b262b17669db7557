"""`rlher enjoy` and `rlher collect`: episodes of an agent, of a controller or of a dataset, watched or recorded."""
