"""Write the script ``play.py``, which plays an exported model without rlher."""

import importlib
import inspect
import json
import math
from collections.abc import Iterable
from keyword import iskeyword
from string import Template
from typing import Any

from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.utils import LinearSchedule

from rlher.config.environment import EnvConfig
from rlher.config.training import TrainConfig
from rlher.core.errors import UserError
from rlher.envs.make import make_kwargs
from rlher.envs.registration import entry_point
from rlher.envs.user_classes import user_classes
from rlher.evaluation.export.sb3_model import PlainModel
from rlher.runs.run_folder import safe_name

BUNDLED_MODULE = "rlher.envs.bit_flipping"
"""Module of BitFlipping, which needs nothing else of rlher and is copied beside the script."""

BUNDLED_WRAPPER = "rlher.envs.frame_stack"
"""Module of FrameStack, which is copied in the same way."""

MAX_NAME_LENGTH = 100
"""Characters of an environment's name in a file name."""

SCRIPT = Template('''"""Plays an episode of $name with this model, rlher not needed: pip install -r requirements.txt"""

from pathlib import Path

$imports

HERE = Path(__file__).parent
${wrappers}${register}env = $env
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


ACTION_REPEAT = Template('''

class ActionRepeat(gym.Wrapper):
    """Repeats each action $times times, as in training."""

    def step(self, action):
        total = 0.0
        for _ in range($times):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info

''')

WIDE_GOALS = Template('''
ORIGIN = np.array($origin)


class WideGoals(gym.ObservationWrapper):
    """Shows goals as in training: relative to the origin, with an unused slot for the hand."""

    def __init__(self, env):
        super().__init__(env)
        spaces = env.observation_space.spaces
        goal = gym.spaces.Box(-np.inf, np.inf, (2 * len(ORIGIN),), np.float64)
        self.observation_space = gym.spaces.Dict({**spaces, "achieved_goal": goal, "desired_goal": goal})

    def observation(self, obs):
        achieved, desired = obs["achieved_goal"] - ORIGIN, obs["desired_goal"] - ORIGIN
        hand = obs["observation"][$hand] - ORIGIN
        wide = {"achieved_goal": np.concatenate([achieved, hand]), "desired_goal": np.concatenate([desired, 0 * hand])}
        return {**obs, **wide}


''')


def play_script(config: TrainConfig, plain: PlainModel, file: str) -> str:
    """Return the script.

    :param file: name of the model's zip beside the script.
    """
    env, source = config.env, SourceWriter()
    modules = registering_modules(env)
    register = "".join(f"gym.register_envs({module})\n" for module in modules)
    env_id = source.value(env.id)
    if is_bundled(env):
        env_id = source.value(env.id.rpartition(":")[2])  # a module of rlher may stand before the colon
        register = f'gym.register({env_id}, "bit_flipping:BitFlippingEnv")\n'
    options = {"max_episode_steps": env.max_episode_steps, "disable_env_checker": True, **make_kwargs(env)}
    arguments = [f"{source.value(plain.policy)},", "env,", *_arguments(config, plain, source)]
    imports = ["import gymnasium as gym", "import numpy as np", *(f"import {module}" for module in modules)]
    model = source.name(type(plain.model))
    wrappers, made = _wrap(env, f"gym.make({env_id}, {source.keywords(options)})", source)
    return SCRIPT.substitute(
        name=env_file_name(env),
        imports="\n".join([*sorted(imports), *source.imports()]),
        register=register,
        wrappers=wrappers,
        env=made,
        model=model,
        arguments="\n    ".join(arguments),
        file=file,
        normalise=NORMALISE.substitute(clip=config.normalize.clip) if config.normalize.enabled else "",
        seen="normalised(obs)" if config.normalize.enabled else "obs",
        success=_success(env, source),
    )


def _wrap(env: EnvConfig, made: str, source: "SourceWriter") -> tuple[str, str]:
    """Return the classes that show an environment as it was in training, and the expression that builds it."""
    classes, bundled = "", bundled_modules(env)
    for wrapper in user_classes("env.wrappers", env.wrappers):
        module = wrapper.module.rpartition(".")[2] if wrapper.module in bundled else wrapper.module
        name = source.imported(module, wrapper.name)
        made = f"{name}({', '.join(filter(None, [made, source.keywords(wrapper.kwargs)]))})"
    if env.action_repeat > 1:
        classes, made = ACTION_REPEAT.substitute(times=env.action_repeat), f"ActionRepeat({made})"
    if env.relay.enabled:
        first, end = env.relay.hand
        classes += WIDE_GOALS.substitute(origin=env.relay.origin, hand=f"{first}:{end}")
        made = f"WideGoals({made})"
    return classes, made


class SourceWriter:
    """Writes values as Python source and collects the imports they need."""

    def __init__(self) -> None:
        self._imports: set[str] = set()

    def imports(self) -> list[str]:
        """Return the import statements of the classes written so far."""
        return sorted(self._imports)

    def imported(self, module: str, name: str) -> str:
        """Return a name of a module as source."""
        self._imports.add(f"from {module} import {name}")
        return name

    def name(self, kind: type) -> str:
        """Return a class as source."""
        return self.imported(_import_module(kind), kind.__name__)

    def value(self, value: Any) -> str:
        """Return plain data, a class or a schedule as source."""
        if inspect.isclass(value):
            return self.name(value)
        if isinstance(value, LinearSchedule):
            return f"{self.name(LinearSchedule)}({value.start}, {value.end}, {value.end_fraction})"
        if isinstance(value, dict) and all(isinstance(key, str) and _is_name(key) for key in value):
            return f"dict({self.keywords(value)})"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self.value(key)}: {self.value(each)}' for key, each in value.items())}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value, value))}]"
        if isinstance(value, float) and not math.isfinite(value):  # their repr is a name that the script lacks
            return f'float("{value}")'
        return json.dumps(value) if isinstance(value, str) and value.isascii() else repr(value)

    def keywords(self, values: dict[str, Any]) -> str:
        """Return keyword arguments as source."""
        if not all(map(_is_name, values)):
            return f"**{self.value(values)}"
        return ", ".join(f"{name}={self.value(each)}" for name, each in values.items())


def _is_name(text: str) -> bool:
    return text.isidentifier() and not iskeyword(text)


def require_modules(names: Iterable[str]) -> None:
    """Raise UserError if a name is not that of a module, because the script imports it and must not run other code."""
    for name in names:
        if not all(map(_is_name, name.split("."))):
            raise UserError(f"env.modules names {name!r}, which is not a module; use a name such as my_package.envs.")


def _import_module(kind: type) -> str:
    """Return the shortest module that a class can be imported from."""
    for module in (kind.__module__.partition(".")[0], "torch.nn"):
        if getattr(importlib.import_module(module), kind.__name__, None) is kind:
            return module
    return kind.__module__


def _arguments(config: TrainConfig, plain: PlainModel, source: SourceWriter) -> list[str]:
    lines = []
    for key, value in plain.arguments.items():
        text = source.value(value)
        if isinstance(value, NormalActionNoise | OrnsteinUhlenbeckActionNoise):
            shape, scale = plain.model.action_space.shape, config.algo.action_noise  # type: ignore[attr-defined]
            text = f"{source.name(type(value))}(np.zeros({shape}), np.full({shape}, {scale}))"
        note = f"  # enough to play; training used {config.algo.buffer_size:,}" if key == "buffer_size" else ""
        lines.append(f"{key}={text},{note}")
    return lines


def env_file_name(env: EnvConfig) -> str:
    """Return an environment's name for use in file names and source."""
    return safe_name(env.name or env.id)[:MAX_NAME_LENGTH]


def bundled_modules(env: EnvConfig) -> list[str]:
    """Return the modules of rlher that are copied beside the script."""
    modules = [_entry_module(env), *(each.module for each in user_classes("env.wrappers", env.wrappers))]
    return [module for module in (BUNDLED_MODULE, BUNDLED_WRAPPER) if module in modules]


def is_bundled(env: EnvConfig) -> bool:
    """Return whether the environment is BitFlipping, whose module is copied beside the script."""
    return _entry_module(env) == BUNDLED_MODULE


def registering_modules(env: EnvConfig) -> list[str]:
    """Return the modules that register an environment, which must be registered already."""
    package = _entry_module(env).partition(".")[0]
    return [*env.modules, *([package] if package not in ("gymnasium", "rlher", *env.modules) else [])]


def _entry_module(env: EnvConfig) -> str:
    entry = entry_point(env.id)
    return entry.partition(":")[0] if isinstance(entry, str) else entry.__module__


def _success(env: EnvConfig, source: SourceWriter) -> str:
    if env.success_key is not None:
        return f"info[{source.value(env.success_key)}]"
    goals = 'obs["achieved_goal"], obs["desired_goal"], info'
    return f'env.get_wrapper_attr("compute_reward")({goals}) >= {env.success_reward}'
