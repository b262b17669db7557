"""A goal policy as an ONNX file, from the environment's observations to its actions."""

import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.policies import BasePolicy

from rlher.evaluation.rollout import Observation, Policy


class GoalPolicy(th.nn.Module):
    """A policy with the scaling of its actions, as one function of tensors.

    Inputs are the arrays of a batch of observations, one for each key of the observation space in its order and in its
    dtype. The output is the batch of deterministic actions.
    """

    def __init__(self, policy: BasePolicy) -> None:
        super().__init__()
        self.policy = policy.eval()
        self.keys = list(policy.observation_space.spaces)  # type: ignore[attr-defined]

    def forward(self, *arrays: th.Tensor) -> th.Tensor:
        """Return the actions (batch, actions), or their indices (batch,)."""
        action = self.policy._predict(dict(zip(self.keys, arrays, strict=True)), deterministic=True)
        space = self.policy.action_space
        if not isinstance(space, gym.spaces.Box):
            return action
        low, high = th.as_tensor(space.low), th.as_tensor(space.high)
        if self.policy.squash_output:
            return low + 0.5 * (action + 1.0) * (high - low)
        return th.maximum(th.minimum(action, high), low)


def write_onnx(path: Path, policy: BasePolicy, observation: Observation) -> None:
    """Write a policy as an ONNX file with the observation's keys as inputs and the output ``action``.

    :param observation: an observation of the environment, without a batch axis; only its shapes and types matter.
    """
    function = GoalPolicy(policy)
    arrays = tuple(th.as_tensor(observation[key])[None] for key in function.keys)
    with warnings.catch_warnings():
        # The exporter that uses torch.export fails on Stable-Baselines3's distributions (torch 2.13) and takes seconds.
        warnings.simplefilter("ignore")
        th.onnx.export(
            function,
            arrays,
            str(path),
            input_names=function.keys,
            output_names=["action"],
            dynamic_axes={name: {0: "batch"} for name in [*function.keys, "action"]},
            dynamo=False,
        )


def load_onnx(path: Path) -> Policy:
    """Return an ONNX file as a function from an observation, without a batch axis, to an action."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def policy(observation: Observation) -> np.ndarray:
        inputs = {name: np.asarray(array)[None] for name, array in observation.items()}
        return np.asarray(session.run(["action"], inputs)[0][0])

    return policy
