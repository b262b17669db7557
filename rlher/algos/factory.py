"""From a config to a Stable-Baselines3 model with our replay buffer."""

import math
import re
from dataclasses import fields
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from rlher.algos import target_bounds
from rlher.algos.fast_update import OwnUpdate
from rlher.algos.layer_norm import with_layer_norm
from rlher.algos.options import Options
from rlher.algos.registry import ALGORITHMS
from rlher.config.algorithms import OffPolicyConfig
from rlher.config.environment import EnvConfig
from rlher.config.training import EngineConfig, HerConfig
from rlher.core.errors import UserError, did_you_mean, first_line
from rlher.her import HerReplayBuffer

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}
POLICY_KEYS = (
    "net_arch",
    "n_critics",
    "n_quantiles",
)  # these go to the policy, every other key to the algorithm
OPTION_KEYS = ("target_critics", "random_action", "action_l2")  # and these to our update step
OWN_KEYS = (
    "name",
    "activation",
    "learning_rate_schedule",
    "action_noise",
    "target_q_bounds",
    "layer_norm_critics",
    "kwargs",
    *OPTION_KEYS,
)


def require_fit(name: str, action_space: spaces.Space) -> None:
    """Refuse an algorithm that cannot act in ``action_space``, naming those that can.

    :raises UserError: unknown algorithm, or one for the other kind of action.
    """
    if name not in ALGORITHMS:
        raise UserError(f"there is no algorithm {name!r}{did_you_mean(name, ALGORITHMS)}.")
    kind = {spaces.Discrete: "discrete", spaces.Box: "continuous"}.get(type(action_space))
    if ALGORITHMS[name].actions != kind:
        fitting = [other for other, algorithm in ALGORITHMS.items() if algorithm.actions == kind]
        advice = f"{', '.join(fitting)} can" if fitting else "no algorithm here can"
        raise UserError(
            f"{name} needs {ALGORITHMS[name].actions} actions, but this environment's are {action_space}. "
            f"{advice} act in it."
        )


def build_model(
    algo: OffPolicyConfig,
    her: HerConfig,
    env: EnvConfig,
    venv: VecEnv,
    seed: int,
    device: str,
    engine: EngineConfig | None = None,
) -> OffPolicyAlgorithm:
    """Build the model of a training run.

    :param algo: its ``learning_starts`` and ``gradient_steps`` already resolved to numbers.
    :param env: the environment's properties, already probed where the config left them open.
    :param venv: where it acts; goal environments.
    :param engine: whose update step, its ``compile`` already resolved; None: the defaults.
    :raises UserError: a value the algorithm's constructor refuses, or something only our update step can do.
    """
    engine = engine or EngineConfig()
    kind = ALGORITHMS[algo.name].load(engine.name)
    bounds = target_bounds.resolve(getattr(algo, "target_q_bounds", None), env.training_reward_range, algo.gamma)
    buffer: dict[str, Any] = dict(
        n_sampled_goal=her.n_sampled_goal,
        goal_selection_strategy=her.goal_selection_strategy,
        goal_mix=her.goal_mix or None,
        n_steps=her.n_steps,
        gamma=algo.gamma,
        priority=her.priority,
        copy_info_dict=her.copy_info_dict,
        relabel_done=her.relabel_done,
        keep_goal_independent_reward=her.keep_goal_independent_reward,
        ends_on_success=env.ends_on_success,
        success_reward=env.training_success_reward,
        seed=seed,
        goal_slot_shares=(1 - env.relay.reach_share, env.relay.reach_share) if env.relay.enabled else None,
    )
    given: dict[str, Any] = dict(replay_buffer_class=HerReplayBuffer, replay_buffer_kwargs=buffer)
    if issubclass(kind, OwnUpdate):
        own = {name: getattr(algo, name) for name in OPTION_KEYS if hasattr(algo, name)}
        given["options"] = Options(
            target_bounds=bounds, compile=engine.compile == "on", precision=engine.precision, **own
        )
        return _construct(kind, algo, venv, seed, device, **given)
    _require_nothing_own(algo, her, engine)
    model = _construct(kind, algo, venv, seed, device, **given)
    target = ALGORITHMS[algo.name].target
    if bounds is not None and target is not None:
        target_bounds.bound(getattr(model, target), bounds)
    return model


def _require_nothing_own(algo: OffPolicyConfig, her: HerConfig, engine: EngineConfig) -> None:
    """Refuse what Stable-Baselines3's update step cannot do."""
    wanted = {f"algo.{name}": getattr(algo, name) for name in OPTION_KEYS if getattr(algo, name, None)}
    if her.priority == "td_error":
        wanted["her.priority"] = her.priority
    if engine.precision != "float32":
        wanted["engine.precision"] = engine.precision
    for name, value in wanted.items():
        whose = "engine=sb3" if engine.name == "sb3" else f"algo={algo.name}"
        raise UserError(f"{name}={value} needs our own update step, which {whose} does not run.")


def build_policy(algo: OffPolicyConfig, venv: VecEnv, device: str) -> OffPolicyAlgorithm:
    """Build a model to act with, not to train: its replay buffer holds a single transition."""
    return _construct(ALGORITHMS[algo.name].load(), algo, venv, seed=0, device=device, buffer_size=1)


def _construct(
    kind: type[OffPolicyAlgorithm], algo: OffPolicyConfig, venv: VecEnv, seed: int, device: str, **given: Any
) -> OffPolicyAlgorithm:
    policy_class = kind.policy_aliases["MultiInputPolicy"]
    if getattr(algo, "layer_norm_critics", False):
        policy_class = with_layer_norm(policy_class)
    try:
        return kind(policy_class, venv, **arguments_of(algo, venv, seed=seed, device=device, **given))
    except (TypeError, ValueError, AssertionError, RuntimeError, LookupError, AttributeError, MemoryError) as error:
        raise UserError(f"{algo.name} cannot be built: {first_line(error)}") from error


def arguments_of(algo: OffPolicyConfig, venv: VecEnv, **given: Any) -> dict[str, Any]:
    """Return the keyword arguments that a config is for the constructor of its Stable-Baselines3 class.

    :param venv: where it acts; asked for the shape of its actions, and how many environments there are.
    :param given: further arguments, which ``algo.kwargs`` may still override.
    :raises UserError: a value that makes no sense.
    """
    options = {item.name: getattr(algo, item.name) for item in fields(algo)}
    arguments = {name: value for name, value in options.items() if name not in POLICY_KEYS + OWN_KEYS}
    policy = {name: options[name] for name in POLICY_KEYS if name in options}
    policy["activation_fn"] = ACTIVATIONS[algo.activation]
    for name in ("ent_coef", "target_entropy"):
        if name in arguments:
            arguments[name] = _auto_or_number(name, arguments[name])
    if algo.learning_rate_schedule == "linear":
        arguments["learning_rate"] = LinearSchedule(algo.learning_rate, 0.0, 1.0)
    if getattr(algo, "action_noise", 0.0) > 0:
        arguments["action_noise"] = _noise(algo.action_noise, venv)  # type: ignore[attr-defined]
    extra = dict(algo.kwargs)
    if "n_steps" in extra:
        raise UserError("n-step returns are the replay buffer's here: set her.n_steps, not algo.kwargs.n_steps.")
    policy |= extra.pop("policy_kwargs", {})
    return arguments | {"policy_kwargs": policy} | given | extra


def _noise(scale: float, venv: VecEnv) -> NormalActionNoise | VectorizedActionNoise:
    shape = venv.action_space.shape or ()
    noise = NormalActionNoise(np.zeros(shape), np.full(shape, scale))
    return VectorizedActionNoise(noise, venv.num_envs) if venv.num_envs > 1 else noise


def _auto_or_number(name: str, value: str) -> str | float:
    if value == "auto" or (name == "ent_coef" and re.fullmatch(r"auto_\d*\.?\d+(e-?\d+)?", value)):
        return value
    try:
        number = float(value)
    except ValueError:
        raise UserError(f"algo.{name}={value!r} is neither auto nor a number.") from None
    if not math.isfinite(number) or (name == "ent_coef" and number < 0):
        raise UserError(f"algo.{name}={value} must be a finite number{', at least 0' if name == 'ent_coef' else ''}.")
    return number
