"""Training runs from config to result, and resuming them."""

import numpy as np  # noqa: F401  # before torch: its import of NumPy ignores exceptions, also Ctrl-C
