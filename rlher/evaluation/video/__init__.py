"""Videos of episodes, several side by side, with captions."""
