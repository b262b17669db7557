"""`rlher export`: write a run's agent as a plain Stable-Baselines3 model, with a script and a model card."""

import importlib.util
import inspect
import shutil
import sys
import tempfile
from contextlib import closing
from importlib import metadata
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import is_wrapped

from rlher.algos import observation_normalizer
from rlher.config.algorithms import ALGORITHMS
from rlher.config.command_configs import ExportConfig
from rlher.config.environment import EnvConfig
from rlher.config.training import RunConfig
from rlher.core.console import print_note
from rlher.core.errors import require_package
from rlher.core.nested import leaves
from rlher.core.reading import finite_float
from rlher.core.rng import preserve_rng_state
from rlher.core.user_code import parse_class
from rlher.core.writing import as_write_error, display_path, write_json
from rlher.envs import bit_flipping, relay, wrappers
from rlher.envs.episode_info import SUCCESS_KEYS
from rlher.envs.goal_wrapper import GoalEnvWrapper
from rlher.envs.make import make_env
from rlher.envs.registration import ENV_PACKAGES, entry_module
from rlher.evaluation import metrics
from rlher.evaluation.models import SavedModel, make_policy
from rlher.evaluation.rollout import Observation, Policy, play_episode
from rlher.export import play
from rlher.export.hub import push_folder, require_pushable
from rlher.export.model_card import LIBRARIES, model_card
from rlher.export.onnx_policy import load_onnx, write_onnx
from rlher.run import lookup, model_file
from rlher.run.build_model import constructor_arguments
from rlher.run.run_folder import RunFolder, read_result, safe_name

COPIED_MODULES = (play, observation_normalizer, bit_flipping, wrappers, relay)
"""Modules that an agent may need, copied into the folder. They import nothing of rlher."""

CLIP = "replay.mp4"

UNTRAINED_CRITICS = (
    "The critics were trained with LayerNorm, which Stable-Baselines3 lacks: the actor is the trained one, the critics "
    "are untrained, so the model can be played but not trained further."
)


def export(config: ExportConfig) -> dict[str, str]:
    """Write the exported folder, and return ``run``, ``model``, ``folder`` and, if it was uploaded, ``url``.

    :raises UserError: there is no such run or model, or the folder cannot be written.
    """
    run, model_name = lookup.find_run_and_model(config)
    chosen = SavedModel(run, model_name)
    if config.format == "onnx":
        for package in ("onnx", "onnxruntime"):
            require_package("format=onnx", package, "onnx")
    if config.push is not None:
        require_pushable(config.push)
    print_note(chosen.name)
    folder, files = _replace_export(chosen, config)
    result = {**chosen.identity, "folder": str(folder)}
    if config.push:
        repository = config.push if "/" in config.push else f"{config.push}/{_base_name(run)}"
        message = f"Export {chosen.model_label} of {run.folder.name} with rlher"
        result["url"] = push_folder(folder, files, repository, message)
        print_note(f"pushed to {result['url']}")
    return result


def _replace_export(chosen: SavedModel, config: ExportConfig) -> tuple[Path, list[str]]:
    """Write the files, print notes on them, and return the folder and the names of the files.

    An earlier export stays as it is until this one is complete.
    """
    folder = Path(config.output).absolute() if config.output else chosen.run.folder / "export"
    parent = folder if config.output else chosen.run.folder
    with as_write_error(folder):
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=parent, prefix=".") as temporary:
            notes = _write(chosen, Path(temporary), config.format == "onnx")
            if not config.output and folder.exists():
                shutil.rmtree(folder)  # play.py would import what somebody else has put there
            folder.mkdir(exist_ok=True)
            for name in (CLIP, f"{_base_name(chosen.run)}.onnx"):  # optional files, which may be of an earlier model
                (folder / name).unlink(missing_ok=True)
            files = [file.name for file in Path(temporary).iterdir()]
            for name in files:
                Path(temporary, name).replace(folder / name)
    for line in notes:
        print_note(f"  {line}")
    return display_path(folder), files


def _base_name(run: RunFolder) -> str:
    env = run.config.env
    return f"{run.config.algo.name}-{safe_name(env.label)[:100]}"  # a file system limits names


def _write(chosen: SavedModel, folder: Path, with_onnx: bool) -> list[str]:
    """Write every file into an empty folder, and check that the exported policies select the run's actions.

    :return: notes on the files, one sentence each.
    """
    run = chosen.run
    config = run.config
    name = _base_name(run)
    files = {"model": f"{name}.zip", "onnx": f"{name}.onnx" if with_onnx else None, "video": None}
    with closing(make_env(config.env)) as env:
        trained = chosen.load(env)
        run_policy = make_policy(trained)
        model, rebuilt_from = build_sb3_model(chosen, trained)
        agent = {"model": files["model"], **rebuilt_from, **_describe_env(config.env)}
        model.save(folder / f"{name}.zip")
        write_json(folder / "agent.json", agent)
        _require_same_actions(env, run_policy, play.load_policy(folder, agent, env))
        if files["onnx"]:
            write_onnx(folder / files["onnx"], model.policy, env.reset(seed=0)[0])
            _require_same_actions(env, run_policy, load_onnx(folder / files["onnx"]))
        notes = _notes(config, agent, env)
    for module in COPIED_MODULES:
        shutil.copy(str(module.__file__), folder)
    clip = run.folder / "clips" / f"{model.num_timesteps}.mp4"
    if clip.is_file():
        files["video"] = CLIP
        shutil.copyfile(clip, folder / CLIP)
    (folder / "requirements.txt").write_text(_requirements(config.env, model))
    (folder / "README.md").write_text(model_card(run, model, files, _final_evaluation(chosen), notes))
    return notes


def build_sb3_model(chosen: SavedModel, trained: BaseAlgorithm) -> tuple[BaseAlgorithm, dict[str, Any]]:
    """Rebuild a model of a run with a replay buffer of one transition; nothing is unpickled.

    :param trained: the model as rlher loads it, with an environment.
    :return: the model, and its class and policy arguments as JSON values, for ``play.py``.
    :raises UserError: the model is damaged.
    """
    config = chosen.run.config
    algo = config.algo
    path = chosen.run.model_path(chosen.model_name)
    vec_env: Any = trained.get_env()
    arguments = constructor_arguments(config, vec_env, buffer_size=1, seed=config.seed)
    kwargs = arguments["policy_kwargs"]
    if kwargs.get("features_extractor_class") is observation_normalizer.NormalizedExtractor:
        kwargs["features_extractor_class"] = import_standalone(observation_normalizer).NormalizedExtractor
    model_class = resolve_name(ALGORITHMS[algo.name].sb3_class)
    known = inspect.signature(model_class).parameters  # the class that was trained may take further arguments
    arguments = {name: value for name, value in arguments.items() if name in known}
    rebuilt_from = {"algorithm": _class_path(model_class), "policy_kwargs": _json_classes(kwargs)}
    with preserve_rng_state():  # a model seeds the global generators, which a script may use
        model = model_class("MultiInputPolicy", vec_env, device="cpu", **arguments)
    if getattr(algo, "layer_norm_critics", False):
        model.policy.actor.load_state_dict(trained.policy.actor.state_dict())  # type: ignore[union-attr]
    else:
        model_file.load_parameters(path, model)
    model.num_timesteps = model_file.read_timesteps(path)
    return model, rebuilt_from


def import_standalone(module: ModuleType) -> ModuleType:
    """Import a module of rlher under its last name alone, by which an exported model refers to the copy beside it."""
    name = module.__name__.rpartition(".")[2]
    if name not in sys.modules:
        spec: Any = importlib.util.spec_from_file_location(name, module.__file__)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _json_classes(value: Any) -> Any:
    """Return a value with ``{"class": "module:name"}`` in the place of each class."""
    if isinstance(value, dict):
        return {key: _json_classes(part) for key, part in value.items()}
    return {"class": _class_path(value)} if isinstance(value, type) else value


def _class_path(cls: type) -> str:
    return f"{cls.__module__}:{cls.__name__}"


def _require_same_actions(env: gym.Env, policy: Policy, exported: Policy) -> None:
    """Raise AssertionError if the exported policy selects other actions in an episode."""

    def checked_policy(observation: Observation) -> np.ndarray:
        action = policy(observation)
        np.testing.assert_allclose(exported(observation), action, atol=1e-4, err_msg="the exported actions differ")
        return action

    play_episode(env, checked_policy, seed=0)


def _final_evaluation(chosen: SavedModel) -> dict[str, Any]:
    """Return the final evaluation of a model from ``result.json``; evaluate it now if there is none."""
    eval_config = chosen.run.config.eval
    seed = eval_config.final_seed
    result = read_result(chosen.run.folder)
    summary = {"last": result, "best": result.get("best")}.get(chosen.model_name)
    recorded = summary if isinstance(summary, dict) else {}
    numbers = {name: value for name, value in recorded.items() if finite_float(value) is not None}
    if numbers.keys() >= metrics.REQUIRED_KEYS:
        return {**dict.fromkeys(metrics.METRICS_BY_NAME), **numbers, "seed": seed}
    print_note(f"  evaluating the model in {eval_config.final_episodes} episodes")
    return {**chosen.evaluate(eval_config.final_episodes, seed), "seed": seed}


def _describe_env(env: EnvConfig) -> dict[str, Any]:
    """Return what ``play.py`` makes an environment from, as JSON values; it must be registered already."""
    module = entry_module(env.id)
    registering = "bit_flipping" if module == bit_flipping.__name__ else module.partition(".")[0]
    modules = dict.fromkeys([*env.modules, *env.id.split(":")[:-1], registering])
    classes = [list(parse_class("env.wrappers", wrapper)) for wrapper in env.wrappers]
    if env.action_repeat > 1:
        classes.append(["wrappers:ActionRepeat", {"times": env.action_repeat, "last_reward": False}])
    if env.relay.enabled:
        arguments = {name: getattr(env.relay, name) for name in ("hand", "origin", "reach_threshold")}
        classes.append(["relay:RelayGoals", {**arguments, "rewards": env.reward_range}])
    return {
        "env": env.id.rpartition(":")[2],
        "modules": [name for name in modules if name.partition(".")[0] != "rlher"],
        "kwargs": env.kwargs,
        "max_episode_steps": env.max_episode_steps,
        "wrappers": classes,
        "success_keys": SUCCESS_KEYS if env.success_key is None else [env.success_key],
        "success_reward": env.success_reward,
    }


def _notes(config: RunConfig, agent: dict[str, Any], env: gym.Env) -> list[str]:
    """Return notes on untrained critics, and on the modules that playing needs and the folder lacks.

    :param agent: content of ``agent.json``.
    """
    named = leaves([agent["algorithm"], agent["policy_kwargs"], *(path for path, _ in agent["wrappers"])])
    paths = [path for path in named if isinstance(path, str) and ":" in path]
    copied = [module.__name__.rpartition(".")[2] for module in COPIED_MODULES]
    known = ("rlher", "torch", "gymnasium", *copied, *LIBRARIES, *ENV_PACKAGES)
    modules = sorted({*agent["modules"], *(path.partition(":")[0] for path in paths)})
    own = [module for module in modules if module.partition(".")[0] not in known]
    notes = [UNTRAINED_CRITICS] if getattr(config.algo, "layer_norm_critics", False) else []
    notes += [f"Playing the agent needs `{module}`, which is not part of this folder." for module in own]
    if is_wrapped(env, GoalEnvWrapper):
        notes.append("The environment is a `GoalEnvWrapper` of rlher, so playing it needs rlher.")
    return notes


def _requirements(env: EnvConfig, model: BaseAlgorithm) -> str:
    """Return ``requirements.txt``: the installed versions of the packages that model and environment come from."""
    names = {"stable-baselines3", "torch", "gymnasium", "numpy"}
    if type(model).__module__.startswith("sb3_contrib."):
        names.add("sb3-contrib")
    if env_package := ENV_PACKAGES.get(entry_module(env.id).partition(".")[0]):
        names.update(env_package.distributions)
    return "".join(f"{name}=={metadata.version(name).partition('+')[0]}\n" for name in sorted(names))
