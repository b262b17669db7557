"""The page that `rlher report` writes: what goes onto it, and putting it together."""
