"""Trained agents: loading them, playing and measuring episodes, filming and exporting them."""
