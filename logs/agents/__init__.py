"""Trained agents that come with rlher, a folder each; scripts/publish_agent.py adds one."""
