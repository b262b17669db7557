"""Goal environments: registration, wrappers, vectorisation and the contract check.

Importing this package registers the environments of rlher with Gymnasium. It does not import torch; only the modules
``*vec_env`` import it.
"""

from rlher.envs import bit_flipping as bit_flipping
