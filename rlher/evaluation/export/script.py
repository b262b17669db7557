"""A script that plays an exported model, without rlher."""

import importlib
import inspect
import json
from collections.abc import Iterable
from keyword import iskeyword
from string import Template
from typing import Any

import gymnasium as gym
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.utils import LinearSchedule

from rlher.config.environment import EnvConfig
from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.envs.make import make_kwargs
from rlher.evaluation.export.sb3_model import Plain
from rlher.runs.run_folder import safe_name

OWN_ENV = "rlher.envs.bit_flipping"
"""The one environment of our own, a module that needs nothing else of rlher: it travels with the model."""

MOST_NAME = 100
"""Letters of an environment's name in that of a file."""

SCRIPT = Template('''"""Plays an episode of $name with this model, rlher not needed: pip install -r requirements.txt"""

from pathlib import Path

$imports

HERE = Path(__file__).parent
${register}env = gym.make($make)
model = $model(
    $arguments
)
model.set_parameters(HERE / "$file", device=model.device)
$normalise
obs, info = env.reset(seed=0)
over, total, steps = False, 0.0, 0
while not over:
    action, _ = model.predict($seen, deterministic=True)
    obs, reward, terminated, truncated, info = env.step(action)
    over, total, steps = terminated or truncated, total + float(reward), steps + 1
success = bool($success)
print(f"success: {success}, return {total:.2f}, {steps} steps")
env.close()
''')

NORMALISE = Template('''scales = np.load(HERE / "normalizer.npz")


def normalised(obs):
    """Scale an observation as in training."""
    scaled = {key: (obs[key] - scales[key + "/mean"]) / scales[key + "/std"] for key in obs if key + "/mean" in scales}
    return {**obs, **{key: np.clip(value, -$clip, $clip).astype(np.float32) for key, value in scaled.items()}}

''')


def play_script(config: TrainConfig, plain: Plain, file: str) -> str:
    """Compose the script.

    :param config: of the run.
    :param plain: the model it builds.
    :param file: name of the model's zip, beside the script.
    """
    env, source = config.env, Source()
    modules = registering(env)
    register = "".join(f"gym.register_envs({module})\n" for module in modules)
    if is_own(env):
        register = f'gym.register({source.value(env.id)}, "bit_flipping:BitFlippingEnv")\n'
    options = {"max_episode_steps": env.max_episode_steps, "disable_env_checker": True, **make_kwargs(env)}
    arguments = [f"{source.value(plain.policy)},", "env,", *_arguments(config, plain, source)]
    imports = ["import gymnasium as gym", "import numpy as np", *(f"import {module}" for module in modules)]
    model = source.name(type(plain.model))
    return SCRIPT.substitute(
        name=name_of(env),
        imports="\n".join([*sorted(imports), *source.imports()]),
        register=register,
        make=f"{source.value(env.id)}, {source.keywords(options)}",
        model=model,
        arguments="\n    ".join(arguments),
        file=file,
        normalise=NORMALISE.substitute(clip=config.normalize.clip) if config.normalize.enabled else "",
        seen="normalised(obs)" if config.normalize.enabled else "obs",
        success=_success(env, source),
    )


class Source:
    """Writes values as Python source, and knows what must be imported for it."""

    def __init__(self) -> None:
        self._classes: set[type] = set()

    def imports(self) -> list[str]:
        """List the import statements of the classes written so far."""
        return sorted(f"from {_home(each)} import {each.__name__}" for each in self._classes)

    def name(self, kind: type) -> str:
        """Write a class."""
        self._classes.add(kind)
        return kind.__name__

    def value(self, value: Any) -> str:
        """Write plain data, a class, or a schedule."""
        if inspect.isclass(value):
            return self.name(value)
        if isinstance(value, LinearSchedule):
            return f"{self.name(LinearSchedule)}({value.start}, {value.end}, {value.end_fraction})"
        if isinstance(value, dict) and all(isinstance(key, str) and _is_name(key) for key in value):
            return f"dict({self.keywords(value)})"
        return json.dumps(value) if isinstance(value, str) and value.isascii() else repr(value)

    def keywords(self, values: dict[str, Any]) -> str:
        """Write keyword arguments, at the end of others."""
        if not all(map(_is_name, values)):
            return f"**{self.value(values)}"
        return ", ".join(f"{name}={self.value(each)}" for name, each in values.items())


def _is_name(text: str) -> bool:
    return text.isidentifier() and not iskeyword(text)


def require_modules(names: Iterable[str]) -> None:
    """Refuse names of modules that no ``import`` statement can have: the script would run whatever they say.

    :raises UserError: naming one.
    """
    for name in names:
        if not all(map(_is_name, name.split("."))):
            raise UserError(f"env.modules names {name!r}, which is not a module: my_package.envs would be one.")


def _home(kind: type) -> str:
    """Return the module that a class is imported from by hand."""
    for module in (kind.__module__.partition(".")[0], "torch.nn"):
        if getattr(importlib.import_module(module), kind.__name__, None) is kind:
            return module
    return kind.__module__


def _arguments(config: TrainConfig, plain: Plain, source: Source) -> list[str]:
    lines = []
    for key, value in plain.arguments.items():
        text = source.value(value)
        if isinstance(value, NormalActionNoise):
            shape, scale = plain.model.action_space.shape, config.algo.action_noise  # type: ignore[attr-defined]
            text = f"{source.name(NormalActionNoise)}(np.zeros({shape}), np.full({shape}, {scale}))"
        note = f"  # enough to play; in training {config.algo.buffer_size:,}" if key == "buffer_size" else ""
        lines.append(f"{key}={text},{note}")
    return lines


def name_of(env: EnvConfig) -> str:
    """Name an environment where quotes and slashes mean something."""
    return safe_name(env.name or env.id)[:MOST_NAME]


def is_own(env: EnvConfig) -> bool:
    """Tell whether an environment is of our own making, and travels with the model."""
    return _entry_module(env) == OWN_ENV


def registering(env: EnvConfig) -> list[str]:
    """List the modules that register an environment; it must be registered already."""
    package = _entry_module(env).partition(".")[0]
    return [*env.modules, *([package] if package not in ("gymnasium", "rlher", *env.modules) else [])]


def _entry_module(env: EnvConfig) -> str:
    entry = gym.spec(env.id).entry_point
    return entry.partition(":")[0] if isinstance(entry, str) else entry.__module__


def _success(env: EnvConfig, source: Source) -> str:
    if env.success_key is not None:
        return f"info[{source.value(env.success_key)}]"
    goals = 'obs["achieved_goal"], obs["desired_goal"], info'
    return f'env.get_wrapper_attr("compute_reward")({goals}) >= {env.success_reward}'
