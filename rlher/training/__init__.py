"""Training runs from config to result, and resuming them."""
