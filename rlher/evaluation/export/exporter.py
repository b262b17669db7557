"""`rlher export`: write a run's agent as a plain Stable-Baselines3 model, with a script and a model card."""

import functools
import json
import shutil
import sys
from collections.abc import Mapping
from contextlib import closing
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv

from rlher.config.commands import ExportConfig
from rlher.config.environment import EnvConfig
from rlher.core.console import command_line, escape_control
from rlher.core.errors import UserError
from rlher.core.files import atomic_write, relative, write_text
from rlher.core.nested import finite_float
from rlher.core.safe_read import links_outside, read_json
from rlher.envs.normalize import GoalNormalize
from rlher.envs.user_classes import user_classes
from rlher.evaluation import metrics
from rlher.evaluation.agent import load_agent, model_name
from rlher.evaluation.export.card import model_card
from rlher.evaluation.export.hub import push_folder, require_pushable
from rlher.evaluation.export.onnx_policy import GoalPolicy, OnnxPolicy, require_onnx, write_onnx
from rlher.evaluation.export.sb3_model import normalization_scales, plain_model
from rlher.evaluation.export.script import (
    bundled_modules,
    env_file_name,
    is_bundled,
    play_script,
    registering_modules,
    require_modules,
)
from rlher.evaluation.rollout import FINAL_SEED_OFFSET, Policy, evaluate_policy, make_policy, play_episode
from rlher.runs import lookup, run_folder
from rlher.runs.model_file import NORMALIZER
from rlher.runs.run_folder import Run


def export(config: ExportConfig) -> int:
    """Write the exported folder and print its path.

    :raises UserError: there is no such run or model, or the folder cannot be written.
    """
    run = lookup.find(config.run, config.logs, config.trust_code)
    which = run.choose_model(config.checkpoint)
    folder = Path(config.output).absolute() if config.output else _default_folder(run)
    require_modules(run.config.env.modules)
    if config.format == "onnx":
        require_onnx()
    if config.push is not None:
        require_pushable(config.push)
    print(escape_control(f"{run}, {model_name(run, which)}"), file=sys.stderr)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files, notes = _write(run, which, folder, config.format == "onnx")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error}.") from error
    for note in notes:
        print(escape_control(f"  {note}"), file=sys.stderr)
    folder = relative(folder)
    result = {"run": str(run), "checkpoint": which, "folder": str(folder)}
    if config.push:
        repository = config.push if "/" in config.push else f"{config.push}/{_base_name(run)}"
        message = f"Export {model_name(run, which)} of {run.folder.name} with rlher"
        result["url"] = push_folder(folder, files, repository, message)
        print(escape_control(f"pushed to {result['url']}"), file=sys.stderr)
    print(json.dumps(result) if config.json else escape_control(str(folder)))
    path = "PYTHONPATH=. " if _needs_current_folder(run.config.env) else ""
    print(escape_control(f"play it: {path}{command_line(['python', str(folder / 'play.py')])}"), file=sys.stderr)
    return 0


def _base_name(run: Run) -> str:
    return f"{run.config.algo.name}-{env_file_name(run.config.env)}"


def _default_folder(run: Run) -> Path:
    """Return the folder to write to without ``--output``."""
    folder = run.folder / "export"
    if links_outside(folder):
        raise UserError(f"{folder} is a link to another folder; name a folder with --output.")
    return folder


def _write(run: Run, which: str, folder: Path, with_onnx: bool) -> tuple[list[str], list[str]]:
    """Write every file of the folder; return their names and notes on them, one sentence each."""
    agent = load_agent(run, which, "cpu", deterministic=True, render_mode=None)
    with closing(agent.env) as env:
        venv = DummyVecEnv([lambda: env])
        normalize = run.config.normalize
        normalizer = GoalNormalize(venv, normalize.clip, training=False) if normalize.enabled else None
        plain = plain_model(run, which, venv, normalizer)
        policy = make_policy(plain.model, normalizer)
        _require_same_actions(env, agent.policy, policy)
        measured = _final_evaluation(run, which, env, policy) | {"timesteps": plain.model.num_timesteps}
        notes = [*plain.caveats, *_env_notes(run.config.env, env)]
        onnx = f"{_base_name(run)}.onnx" if with_onnx else None
        if onnx is None:
            (folder / f"{_base_name(run)}.onnx").unlink(missing_ok=True)  # an earlier export's, of other weights
        else:
            with atomic_write(folder / onnx) as temporary:
                write_onnx(temporary, GoalPolicy(plain.model.policy, normalizer), env.reset(seed=0)[0])
                _require_same_actions(env, agent.policy, OnnxPolicy(temporary))
    file = f"{_base_name(run)}.zip"
    replay = _replay(run, plain.model.num_timesteps)
    texts = {
        "README.md": model_card(run, plain, measured, file, notes, replay is not None, onnx),
        "play.py": play_script(run.config, plain, file),
        "requirements.txt": _requirements(run.config.env, type(plain.model)),
    }
    with atomic_write(folder / file) as temporary, temporary.open("wb") as stream:
        plain.model.save(stream)
    if normalizer is not None:
        with atomic_write(folder / NORMALIZER) as temporary:
            np.savez(temporary, **normalization_scales(normalizer))  # type: ignore[arg-type]
    own = [Path(str(import_module(name).__file__)) for name in bundled_modules(run.config.env)]
    copies = {path.name: path for path in own} | ({} if replay is None else {"replay.mp4": replay})
    for name, source in copies.items():
        with atomic_write(folder / name) as temporary:
            shutil.copyfile(source, temporary)
    for name, text in texts.items():
        write_text(folder / name, text)
    written = [file, onnx, NORMALIZER if normalizer else None, *copies, *texts]
    return [name for name in written if name is not None], notes


def _replay(run: Run, steps: int) -> Path | None:
    """Return the clip of the model after a number of steps, None if there is none or it is a link out of the run."""
    clip = run.folder / "clips" / f"{steps}.mp4"
    return clip if clip.is_file() and not links_outside(clip, run.folder) else None


def _require_same_actions(env: gym.Env, policy: Policy, exported: Policy) -> None:
    """Raise AssertionError if the exported policy selects other actions in an episode."""

    def both(observation: dict[str, np.ndarray]) -> np.ndarray:
        action = policy(observation)
        np.testing.assert_allclose(
            exported(observation), action, atol=1e-4, err_msg="the exported model selects other actions"
        )
        return action

    play_episode(env, both, FINAL_SEED_OFFSET)


def _final_evaluation(run: Run, which: str, env: gym.Env, policy: Policy) -> dict[str, Any]:
    """Return the final evaluation of a model from ``result.json``; evaluate it now if there is none."""
    episodes, seed = run.config.eval.final_episodes, run.config.eval.seed + FINAL_SEED_OFFSET
    result = read_json(run.folder / "result.json")
    if result.get("status") == "finished" and which in run_folder.MODELS:
        summary = result.get("best") if which == "best" else result
        found = summary.items() if isinstance(summary, dict) else ()
        values = {name: value for name, value in found if finite_float(value) is not None}
        if values.keys() >= metrics.REQUIRED:
            return {**dict.fromkeys(metrics.BY_NAME), **values, "seed": seed}
    print(f"  evaluating the model in {episodes} episodes", file=sys.stderr)
    return {**evaluate_policy(env, policy, episodes, seed), "seed": seed}


def _env_notes(config: EnvConfig, env: gym.Env) -> list[str]:
    """Return the requirements of the environment that are not in the folder, one sentence each."""
    installed = _distributions()
    modules = [name for name in registering_modules(config) if name in config.modules or name not in installed]
    notes = [f"`{module}` registers the environment and is not part of this folder." for module in modules]
    wrappers = {each.module for each in user_classes("env.wrappers", config.wrappers)} - set(bundled_modules(config))
    unknown = {module for module in wrappers if module.partition(".")[0] not in installed}
    notes += [f"`{module}` wraps the environment and is not part of this folder." for module in sorted(unknown)]
    if type(env.unwrapped).__module__.startswith("rlher.") and not is_bundled(config):
        notes.append(f"The environment is a `{type(env.unwrapped).__name__}` of rlher, so playing it needs rlher.")
    return notes


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    """Return the installed distributions of each top-level module; reading them takes a fifth of a second."""
    return metadata.packages_distributions()


def _needs_current_folder(env: EnvConfig) -> bool:
    """Return whether ``play.py`` imports a module of the current folder; Python looks only in the script's folder."""
    modules = {*registering_modules(env), *(each.module for each in user_classes("env.wrappers", env.wrappers))}
    names = {module.partition(".")[0] for module in modules} - _distributions().keys() - {"rlher"}
    return any(Path(f"{name}.py").is_file() or Path(name).is_dir() for name in names)


def _requirements(env: EnvConfig, model: type) -> str:
    """Return ``requirements.txt``: the packages that the script imports, in the installed versions."""
    simulators = {"gymnasium_robotics": ["mujoco"], "panda_gym": ["pybullet"]}
    modules = [module for module in registering_modules(env) if module not in env.modules]
    needed = {"stable_baselines3", model.__module__.partition(".")[0], "torch", "gymnasium", "numpy", *modules}
    needed |= {each for module in modules for each in simulators.get(module, [])}
    needed |= {each.module.partition(".")[0] for each in user_classes("env.wrappers", env.wrappers)} - {"rlher"}
    distributions = _distributions()
    names = sorted({distributions[module][0].replace("_", "-") for module in needed & distributions.keys()})
    return "".join(f"{name}=={metadata.version(name).partition('+')[0]}\n" for name in names)
