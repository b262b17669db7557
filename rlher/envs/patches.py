"""Changes to gymnasium-robotics and panda-gym: a faster function, and repeatable resets.

gymnasium-robotics: ``mujoco_utils.robot_get_obs`` looks up each joint by its name in every step, once for its position
and once for its velocity, which takes a fifth of a step of Fetch. :func:`robot_get_obs` looks them up once for each
model.

panda-gym: see :class:`SeededResets`.
"""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import gymnasium as gym
import numpy as np

Joints = tuple[np.ndarray, np.ndarray]
"""Indices of the joints' positions, in ``qpos``, and of their velocities, in ``qvel``."""

_JOINTS: "WeakKeyDictionary[Any, tuple[Sequence[str], Joints]]" = WeakKeyDictionary()


def robot_get_obs(model: Any, data: Any, joint_names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and velocities (joints,) of the joints whose names begin with ``robot``.

    :raises ValueError: one of them has more than one degree of freedom; gymnasium-robotics has no such robot.
    """
    if data.qpos is None or not joint_names:
        return np.zeros(0), np.zeros(0)
    known = _JOINTS.get(model)
    if known is None or known[0] is not joint_names:
        known = _JOINTS[model] = joint_names, _joints(model, joint_names)
    positions, velocities = known[1]
    return np.squeeze(data.qpos[positions]), np.squeeze(data.qvel[velocities])


def _joints(model: Any, joint_names: Sequence[str]) -> Joints:
    import mujoco

    indices = [model.joint(name).id for name in joint_names if name.startswith("robot")]
    if not set(model.jnt_type[indices]) <= {mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE}:
        raise ValueError("a joint of the robot is neither a hinge nor a slide")
    return model.jnt_qposadr[indices], model.jnt_dofadr[indices]


def patch_joint_reader() -> None:
    """Replace gymnasium-robotics' own function by :func:`robot_get_obs`, in this process."""
    from gymnasium_robotics.utils import mujoco_utils

    mujoco_utils.robot_get_obs = robot_get_obs


class SeededResets(gym.Wrapper):
    """Give a reset without a seed one that follows from the last seed that was given.

    Gymnasium continues with its generator instead, so that a run with a seed repeats itself and can be resumed exactly;
    panda-gym 3.0.7 does not (``RobotTaskEnv.reset``).
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset with the given seed, or with the next one."""
        if seed is None:
            seed = int(self._rng.integers(2**31))
        else:
            self._rng = np.random.default_rng(seed)
        return self.env.reset(seed=seed, options=options)


def with_seeded_resets(env: gym.Env) -> gym.Env:
    """Return an environment of panda-gym with :class:`SeededResets`, any other as it is."""
    return SeededResets(env) if type(env.unwrapped).__module__.startswith("panda_gym.") else env
