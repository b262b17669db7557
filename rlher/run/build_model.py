"""Models built from configs: Stable-Baselines3's algorithms with the fast update and rlher's replay buffer.

To add an algorithm, see :mod:`rlher.config.algorithms`.
"""

from dataclasses import asdict
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from rlher.algos.networks import with_layer_norm
from rlher.algos.observation_normalizer import NormalizedExtractor, has_float_vectors
from rlher.algos.off_policy_algorithm import OffPolicyAlgorithm
from rlher.algos.schedules import make_schedule
from rlher.algos.target_q_bounds import resolve_target_q_bounds
from rlher.config.algorithms import ACTIVATIONS, ALGORITHMS, ActorCriticConfig, OffPolicyConfig
from rlher.config.key import keys_of
from rlher.config.training import RunConfig, all_run_keys
from rlher.core.errors import ReportedError, UserError, first_line
from rlher.core.rng import preserve_rng_state
from rlher.core.user_code import import_object
from rlher.her.replay_buffer import HerReplayBuffer

KEY_OF_ARGUMENT = {"activation_fn": "activation", "optimizer_class": "weight_decay", "optimizer_kwargs": "weight_decay"}
"""The ``algo.`` keys of policy arguments whose key has another name."""


def require_supported_actions(name: str, action_space: spaces.Space) -> None:
    """Raise UserError if an algorithm does not support an action space."""
    kind = {spaces.Discrete: "discrete", spaces.Box: "continuous"}.get(type(action_space))
    if ALGORITHMS[name].actions != kind:
        suitable = [other for other, algorithm in ALGORITHMS.items() if algorithm.actions == kind]
        advice = f"use {', '.join(suitable)}" if suitable else "no algorithm supports these"
        raise UserError(
            f"algo={name} needs {ALGORITHMS[name].actions} actions, but the environment has {action_space}; {advice}."
        )


def require_usable_device(device: str) -> None:
    """Raise UserError unless torch can write numbers to a device and read them back."""
    if device == "auto":
        return
    try:
        th.ones(1, device=device).tolist()
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error).partition(". ")[0]
        raise UserError(f"device={device} cannot be used here ({reason}); use device=auto or device=cpu.") from error


def build_model(config: RunConfig, vec_env: VecEnv) -> OffPolicyAlgorithm:
    """Build the model of a training run. Its replay buffer holds no demonstrations yet.

    :param config: config with resolved ``auto`` and null values.
    :param vec_env: vectorised goal environments.
    :raises UserError: the constructor refuses a value, or a value needs the fast update and the model cannot use it.
    """
    buffer_arguments = asdict(config.her) | {
        "gamma": config.algo.gamma,
        "ends_on_success": config.env.ends_on_success,
        "success_reward": config.env.training_success_reward,
        "seed": config.seed,
        "demonstration_fraction": config.demos.fraction,
        "goal_parts": config.env.goal_parts,
    }
    arguments: dict[str, Any] = dict(
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs=buffer_arguments,
        seed=config.seed,
        overlap=config.engine.overlap,
        compile=config.engine.compile == "on",
        bf16=config.engine.precision == "bf16",
        relay_probability=config.env.relay.probability if config.env.relay.enabled else 0.0,
        relay_distance=config.env.relay.distance,
    )
    if config.demos.bc_weight:
        arguments |= {"bc_weight": config.demos.bc_weight, "q_filter": config.demos.q_filter}
    return _construct_model(config, vec_env, config.device, **arguments)


def build_inference_model(config: RunConfig, vec_env: VecEnv, device: str) -> OffPolicyAlgorithm:
    """Build a run's model for selecting actions only. Its replay buffer has room for a single transition."""
    with preserve_rng_state():  # building a model seeds the global generators, which a script may use
        model = _construct_model(config, vec_env, device, seed=0, buffer_size=1)
    if hasattr(model, "exploration_final_eps"):  # DQN's rate for actions that are not deterministic
        model.exploration_rate = model.exploration_final_eps  # type: ignore[attr-defined]
    return model


def _construct_model(config: RunConfig, vec_env: VecEnv, device: str, **arguments: Any) -> OffPolicyAlgorithm:
    algo = config.algo
    model_class: Any = ALGORITHMS[algo.name].load()
    if algo.model_class is not None:
        model_class = import_object("algo.model_class", algo.model_class, model_class)
    policy_class = model_class.policy_aliases["MultiInputPolicy"]
    if isinstance(algo, ActorCriticConfig) and algo.layer_norm_critics:
        policy_class = with_layer_norm(policy_class)
    try:
        # Stable-Baselines3's constructor calls `OffPolicyAlgorithm._setup_model`.
        return model_class(policy_class, vec_env, **constructor_arguments(config, vec_env, device=device, **arguments))
    except ReportedError:
        raise
    except Exception as error:  # Stable-Baselines3 and torch raise errors of many kinds
        raise UserError(f"algo={algo.name} cannot be built with these values: {first_line(error)}.") from error


def _values_for(algo: OffPolicyConfig, taker: str) -> dict[str, Any]:
    """Return the values of the ``algo.`` keys that are arguments of the ``"constructor"`` or of the ``"policy"``."""
    return {name: getattr(algo, name) for name, key in keys_of(algo).items() if key.rules.argument_of == taker}


def constructor_arguments(config: RunConfig, vec_env: VecEnv, **arguments: Any) -> dict[str, Any]:
    """Convert a config to keyword arguments of the model's constructor.

    :param vec_env: vectorised environments; only their spaces are used.
    :param arguments: further arguments.
    :raises UserError: a value is invalid.
    """
    algo = config.algo
    by_name = _values_for(algo, "constructor")
    key = "algo.learning_rate_schedule"
    reward_range = config.env.training_reward_range
    by_name["target_q_bounds"] = resolve_target_q_bounds(algo.target_q_bounds, reward_range, algo.gamma)
    by_name["learning_rate"] = make_schedule(algo.learning_rate_schedule, algo.learning_rate, key)
    if isinstance(algo, ActorCriticConfig):
        mean = np.zeros(vec_env.action_space.shape or ())
        noise = NormalActionNoise(mean, np.full_like(mean, algo.action_noise))
        by_name["action_noise"] = noise if algo.action_noise else None
    by_name["policy_kwargs"] = _policy_arguments(config, vec_env.observation_space)
    by_name |= {"n_steps": 1} | arguments  # the replay buffer has the n-step returns
    for name in algo.kwargs.keys() & {*by_name, *vars(algo), *vars(config.demos)}:
        keys = [key for key in all_run_keys() if key.rpartition(".")[2] == name]
        raise UserError(f"algo.kwargs.{name} is not supported; set {keys[0] if keys else 'a config key'} instead.")
    return {**by_name, **algo.kwargs}


def _policy_arguments(config: RunConfig, observation_space: spaces.Space) -> dict[str, Any]:
    algo = config.algo
    policy = _values_for(algo, "policy")
    if isinstance(algo.net_arch, dict) and not isinstance(algo, ActorCriticConfig):
        raise UserError(f"algo={algo.name} has a single network; give its sizes as algo.net_arch=[64,64].")
    activation = ACTIVATIONS.get(algo.activation, algo.activation)
    policy["activation_fn"] = import_object("algo.activation", activation, nn.Module)
    if algo.weight_decay:
        policy |= {"optimizer_class": th.optim.AdamW, "optimizer_kwargs": {"weight_decay": algo.weight_decay}}
    for name, value in algo.policy_kwargs.items():
        if name in policy:
            key = KEY_OF_ARGUMENT.get(name, name)
            raise UserError(f"algo.policy_kwargs.{name} would override algo.{key}; set that key instead.")
        if name == "optimizer_class" and ":" not in str(value):
            value = f"torch.optim:{value}"
        is_code = isinstance(value, str) and ":" in value
        policy[name] = import_object(f"algo.policy_kwargs.{name}", value) if is_code else value
    if config.normalize.enabled and has_float_vectors(observation_space):
        normalizer = {"clip": config.normalize.clip, "goal_parts": config.env.goal_parts}
        given = {name: value for name, value in policy.items() if name.startswith("features_extractor_")}
        policy["features_extractor_class"] = NormalizedExtractor
        policy["features_extractor_kwargs"] = normalizer | given
    return policy
