"""Play episodes with an exported agent: ``python play.py [--episodes 100] [--seed 7]``.

The script is the same for every agent: it reads ``agent.json`` beside it, and needs the packages of
``requirements.txt``, not rlher. It builds the policy by its constructor and loads the weights; nothing is unpickled.
"""

import argparse
import importlib
import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th

Observation = dict[str, np.ndarray]


def _import(path: str) -> Any:
    """Return the attribute that ``module:name`` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def make_env(agent: dict[str, Any]) -> gym.Env:
    """Return the environment of an agent.

    :param agent: content of ``agent.json``.
    """
    for module in agent["modules"]:
        importlib.import_module(module)
    limit = agent["max_episode_steps"]
    env = gym.make(agent["env"], max_episode_steps=limit, disable_env_checker=True, **agent["kwargs"])
    if "mujoco" in sys.modules:  # otherwise it writes warnings into MUJOCO_LOG.TXT in the current folder
        sys.modules["mujoco"].set_mju_user_warning(print)
    for path, kwargs in agent["wrappers"]:
        env = _import(path)(env, **kwargs)
    return env


def load_policy(folder: Path, agent: dict[str, Any], env: gym.Env) -> Callable[[Observation], np.ndarray]:
    """Return a function from an observation of the environment to an action.

    :param folder: folder of the model's zip.
    """
    policy_kwargs = json.loads(json.dumps(agent["policy_kwargs"]), object_hook=_with_class)
    algorithm = _import(agent["algorithm"])
    model = algorithm("MultiInputPolicy", env, buffer_size=1, device="cpu", policy_kwargs=policy_kwargs)
    with zipfile.ZipFile(folder / agent["model"]) as archive:
        weights = io.BytesIO(archive.read("policy.pth"))
    model.policy.load_state_dict(th.load(weights, map_location="cpu", weights_only=True))
    return lambda observation: model.predict(observation, deterministic=True)[0]


def _with_class(value: dict[str, Any]) -> Any:
    """Return the class that ``{"class": "module:name"}`` stands for, and any other dictionary as it is."""
    return _import(value["class"]) if value.keys() == {"class"} else value


def is_success(agent: dict[str, Any], env: gym.Env, observation: Observation, info: dict[str, Any]) -> bool:
    """Return whether the goal is reached, as rlher measures it."""
    for key in agent["success_keys"]:
        if key in info:
            return bool(info[key])
    compute_reward = env.get_wrapper_attr("compute_reward")
    reward = compute_reward(observation["achieved_goal"], observation["desired_goal"], info)
    success_reward = agent["success_reward"]
    return bool(reward >= success_reward - 1e-5 * max(1.0, abs(success_reward)))  # apart from rounding


def main() -> None:
    """Play episodes, and print the outcome of each and the success rate."""
    parser = argparse.ArgumentParser(description="Play episodes with this agent.")
    parser.add_argument("--episodes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first episode; the next ones count up")
    arguments = parser.parse_args()
    folder = Path(__file__).absolute().parent
    sys.path.append(str(folder))  # copied modules lie there; `python -P` leaves it out
    agent = json.loads((folder / "agent.json").read_text())
    env = make_env(agent)
    successes = 0
    policy = load_policy(folder, agent, env)
    for seed in range(arguments.seed, arguments.seed + arguments.episodes):
        observation, info = env.reset(seed=seed)
        rewards: list[float] = []
        over = False
        while not over:
            observation, reward, terminated, truncated, info = env.step(policy(observation))
            rewards.append(float(reward))
            over = terminated or truncated
        success = is_success(agent, env, observation, info)
        successes += success
        print(f"success: {success}, return {sum(rewards):.2f}, {len(rewards)} steps", flush=True)
    if arguments.episodes > 1:
        print(f"success rate: {successes / arguments.episodes:.1%}")
    env.close()


if __name__ == "__main__":
    main()
