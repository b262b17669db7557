"""The algorithms: Stable-Baselines3's classes with a faster update.

``SAC``, ``TD3``, ``DDPG``, ``TQC`` and ``DQN`` need no command line and no run folder. To add an algorithm,
see `rlher.config.algorithms`.
"""

from rlher.algos.dqn import DQN
from rlher.algos.sac import SAC
from rlher.algos.td3 import DDPG, TD3
from rlher.algos.tqc import TQC
from rlher.config.algorithms import ALGORITHMS, Algorithm

__all__ = ["ALGORITHMS", "DDPG", "DQN", "SAC", "TD3", "TQC", "Algorithm"]
