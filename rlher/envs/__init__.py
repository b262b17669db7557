"""Goal environments: registration, wrappers, vectorisation and the contract check.

Importing this package registers the environments of rlher with Gymnasium, and does not import torch; only the modules
``*vec_env`` do.
"""

import gymnasium as gym

gym.register(id="BitFlipping-v0", entry_point="rlher.envs.bit_flipping:BitFlippingEnv")
