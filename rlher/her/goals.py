"""Which goal each sampled row gets."""
KEY_TO_GOAL_STRATEGY: dict = {"future": 0, "final": 1, "episode": 2, "random": 3}
