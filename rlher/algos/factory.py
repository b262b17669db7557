"""Models built from configs: Stable-Baselines3 algorithms with our replay buffer."""

import math
import re
from dataclasses import fields, replace
from typing import Any

from gymnasium import spaces
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from rlher.algos.exploration import make_noise
from rlher.algos.fast_update import FastUpdate
from rlher.algos.layer_norm import with_layer_norm
from rlher.algos.options import Options
from rlher.algos.schedules import make_schedule
from rlher.algos.target_bounds import Bounds, clamp_outputs, resolve_target_bounds
from rlher.config.algorithms import ALGORITHMS, ActorCriticConfig, OffPolicyConfig
from rlher.config.environment import EnvConfig
from rlher.config.her import DemosConfig, HerConfig
from rlher.config.override_syntax import literal
from rlher.config.training import EngineConfig
from rlher.core.errors import UserError, did_you_mean, first_line
from rlher.her import HerReplayBuffer

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}

CONFIG_ERRORS = (
    TypeError,
    ValueError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
    LookupError,
    AttributeError,
    MemoryError,
)
"""What Stable-Baselines3 and torch raise for invalid arguments."""

# Config keys are arguments of the algorithm's constructor, except for these.
POLICY_KEYS = ("net_arch", "n_critics", "n_quantiles")
"""Keys that are arguments of the policy."""

OPTION_KEYS = tuple(item.name for item in fields(Options))
"""Keys that are options of our update step."""

CONVERTED_KEYS = (
    "name",
    "activation",
    "learning_rate_schedule",
    "train_freq_unit",
    "action_noise",
    "noise",
    "target_q_bounds",
    "layer_norm_critics",
    "kwargs",
)
"""Keys that this module turns into arguments of another form."""


def validate_actions(name: str, action_space: spaces.Space) -> None:
    """Raise UserError if an algorithm does not support an action space.

    :raises UserError: unknown algorithm, or one for the other kind of actions.
    """
    if name not in ALGORITHMS:
        raise UserError(f"algo={name} does not exist{did_you_mean(name, ALGORITHMS)}.")
    kind = {spaces.Discrete: "discrete", spaces.Box: "continuous"}.get(type(action_space))
    if ALGORITHMS[name].actions != kind:
        suitable = [other for other, algorithm in ALGORITHMS.items() if algorithm.actions == kind]
        advice = f"use {', '.join(suitable)}" if suitable else "no algorithm supports these"
        raise UserError(
            f"algo={name} needs {ALGORITHMS[name].actions} actions, but the environment has {action_space}; {advice}."
        )


def build_model(
    algo: OffPolicyConfig,
    her: HerConfig,
    env: EnvConfig,
    venv: VecEnv,
    seed: int,
    device: str,
    engine: EngineConfig | None = None,
    demos: DemosConfig | None = None,
) -> OffPolicyAlgorithm:
    """Build the model of a training run.

    :param algo: with ``learning_starts`` and ``gradient_steps`` resolved to numbers.
    :param env: with the properties that the config leaves open filled in by probing.
    :param venv: vectorised goal environments.
    :param engine: update step, with every ``auto`` resolved; None: the defaults.
    :param demos: how demonstrations are learnt from, which the replay buffer does not hold yet; None: the defaults.
    :raises UserError: the constructor refuses a value, or a value needs our update step and another one is used.
    """
    engine, demos = choose_engine(algo, engine or EngineConfig()), demos or DemosConfig()
    algorithm = ALGORITHMS[algo.name]
    model_class = algorithm.load(engine.name)
    bounds = resolve_target_bounds(getattr(algo, "target_q_bounds", None), env.training_reward_range, algo.gamma)
    arguments: dict[str, Any] = dict(
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs=_buffer_arguments(algo, her, env, demos, seed),
        episode_steps=env.episode_steps,
    )
    if issubclass(model_class, FastUpdate):
        arguments["options"] = _options(algo, engine, demos, bounds)
        return _construct(model_class, algo, venv, seed, device, **arguments)
    _validate_sb3_engine(algo, her, engine, demos)
    model = _construct(model_class, algo, venv, seed, device, **arguments)
    if bounds is not None and algorithm.target_network is not None:
        clamp_outputs(getattr(model, algorithm.target_network), bounds)
    return model


def choose_engine(algo: OffPolicyConfig, engine: EngineConfig) -> EngineConfig:
    """Return the engine that runs: Stable-Baselines3's with gSDE; with an open ``overlap``, if it is our own."""
    name = "sb3" if uses_sde(algo) else engine.name
    overlap = uses_own_update(algo, name) if engine.overlap is None else engine.overlap
    return replace(engine, name=name, overlap=overlap)


def uses_own_update(algo: OffPolicyConfig, engine_name: str) -> bool:
    """Return whether an algorithm is trained by our update step: not CrossQ, for example."""
    return issubclass(ALGORITHMS[algo.name].load(engine_name), FastUpdate)


def uses_sde(algo: OffPolicyConfig) -> bool:
    """Return whether a config asks for gSDE (generalised state-dependent exploration)."""
    return bool(getattr(algo, "use_sde", False) or algo.kwargs.get("use_sde"))


def build_inference_model(algo: OffPolicyConfig, venv: VecEnv, device: str) -> OffPolicyAlgorithm:
    """Build a model that selects actions only: its replay buffer holds a single transition."""
    return _construct(ALGORITHMS[algo.name].load(), algo, venv, seed=0, device=device, buffer_size=1)


def _buffer_arguments(
    algo: OffPolicyConfig, her: HerConfig, env: EnvConfig, demos: DemosConfig, seed: int
) -> dict[str, Any]:
    return dict(
        **her.buffer_arguments(),
        gamma=algo.gamma,
        ends_on_success=env.ends_on_success,
        success_reward=env.training_success_reward,
        seed=seed,
        demonstration_fraction=demos.fraction,
        goal_part_shares=(1 - env.relay.reach_share, env.relay.reach_share) if env.relay.enabled else None,
    )


def _options(algo: OffPolicyConfig, engine: EngineConfig, demos: DemosConfig, bounds: Bounds | None) -> Options:
    from_algo = {name: getattr(algo, name) for name in OPTION_KEYS if hasattr(algo, name)}
    return Options(
        target_bounds=bounds,
        bc_weight=demos.bc_weight,
        q_filter=demos.q_filter,
        overlap=bool(engine.overlap),
        compile=engine.compile == "on",
        onednn=engine.matmul == "onednn" and engine.precision == "float32",  # in bf16 torch calls oneDNN itself
        precision="bf16" if engine.precision == "bf16" else "float32",
        **from_algo,
    )


def _validate_sb3_engine(algo: OffPolicyConfig, her: HerConfig, engine: EngineConfig, demos: DemosConfig) -> None:
    """Raise UserError if values need our update step; it names them all, because a recipe may have set them."""
    values = {f"algo.{name}": (getattr(algo, name, None), getattr(Options, name)) for name in OPTION_KEYS}
    values["demos.bc_weight"] = demos.bc_weight, Options.bc_weight
    values["engine.overlap"] = engine.overlap, Options.overlap
    found = {name: pair for name, pair in values.items() if pair[0] is not None and pair[0] != pair[1]}
    for key, needs_ours in (("matmul", "onednn"), ("precision", "bf16")):
        if getattr(engine, key) == needs_ours:
            found[f"engine.{key}"] = needs_ours, getattr(EngineConfig, key)
    if her.priority == "td_error":
        found["her.priority"] = her.priority, HerConfig.priority
    if not found:
        return
    used = "algo.use_sde=true" if uses_sde(algo) else "engine=sb3" if engine.name == "sb3" else f"algo={algo.name}"
    refused = ", ".join(f"{name}={literal(value)}" for name, (value, _) in found.items())
    without = " ".join(f"{name}={literal(default)}" for name, (_, default) in found.items())
    raise UserError(
        f"{used} does not use rlher's own update step, which is needed for {refused}; set {without} to train without."
    )


def _construct(
    model_class: type[OffPolicyAlgorithm], algo: OffPolicyConfig, venv: VecEnv, seed: int, device: str, **arguments: Any
) -> OffPolicyAlgorithm:
    policy_class = model_class.policy_aliases["MultiInputPolicy"]
    if getattr(algo, "layer_norm_critics", False):
        policy_class = with_layer_norm(policy_class)
    try:
        return model_class(
            policy_class, venv, **constructor_arguments(algo, venv, seed=seed, device=device, **arguments)
        )
    except CONFIG_ERRORS as error:
        raise UserError(f"algo={algo.name} cannot be built with these values: {first_line(error)}.") from error


def constructor_arguments(
    algo: OffPolicyConfig, venv: VecEnv, episode_steps: int | None = None, **arguments: Any
) -> dict[str, Any]:
    """Return the keyword arguments of the Stable-Baselines3 constructor that a config stands for.

    :param venv: for the shape of the actions and the number of environments.
    :param episode_steps: most steps of an episode, for pink noise; None: unknown.
    :param arguments: further ones, which ``algo.kwargs`` may override.
    :raises UserError: a value is invalid.
    """
    values = {item.name: getattr(algo, item.name) for item in fields(algo)}
    policy = {name: values[name] for name in POLICY_KEYS if name in values}
    policy["activation_fn"] = ACTIVATIONS[algo.activation]
    own = {name: value for name, value in values.items() if name not in (*POLICY_KEYS, *OPTION_KEYS, *CONVERTED_KEYS)}
    for name in ("ent_coef", "target_entropy"):
        if name in own:
            own[name] = _auto_or_number(name, own[name])
    if algo.train_freq_unit == "episode":
        own["train_freq"] = algo.train_freq, "episode"
    own["learning_rate"] = make_schedule(algo.learning_rate_schedule, algo.learning_rate)
    if isinstance(algo, ActorCriticConfig) and algo.action_noise > 0:
        shape = venv.action_space.shape or ()
        own["action_noise"] = make_noise(algo.noise, algo.action_noise, shape, venv.num_envs, episode_steps)
    extra = dict(algo.kwargs)
    if "n_steps" in extra:
        raise UserError("algo.kwargs.n_steps is not supported; set her.n_steps instead.")
    policy |= extra.pop("policy_kwargs", {})
    if isinstance(policy["net_arch"], dict) and not isinstance(algo, ActorCriticConfig):
        raise UserError(f"policy_kwargs.net_arch: algo={algo.name} has a single network; use algo.net_arch=[64,64].")
    return own | {"policy_kwargs": policy} | arguments | extra


def _auto_or_number(name: str, value: str) -> str | float:
    if value == "auto" or (name == "ent_coef" and re.fullmatch(r"auto_\d*\.?\d+(e-?\d+)?", value)):
        return value
    try:
        number = float(value)
    except ValueError:
        raise UserError(f"algo.{name}={value!r} is not valid; use auto or a number.") from None
    if not math.isfinite(number) or (name == "ent_coef" and number < 0):
        raise UserError(
            f"algo.{name}={value} is not valid; use a finite number{' of at least 0' if name == 'ent_coef' else ''}."
        )
    return number
