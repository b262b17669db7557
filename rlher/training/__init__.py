"""Training runs from config to result, and resuming them."""

import numpy as np  # noqa: F401  # before torch, whose import of NumPy ignores an exception, such as that of Ctrl-C
