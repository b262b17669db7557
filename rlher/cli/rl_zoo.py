"""Translate RL Zoo's command line and YAML files to overrides.

``rlher --algo sac --env FetchReach-v4 -n 10000 -params batch_size:256`` becomes
``rlher train algo=sac env=FetchReach-v4 total_timesteps=10000 algo.batch_size=256``. ``--algo`` and ``--env`` are flags
of rlher's own, because a group has one, see :mod:`rlher.cli.command_line`.
"""

import argparse
import ast
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from rlher.config.algorithms import ALGORITHMS
from rlher.config.conf_files import read_mapping
from rlher.config.overrides import SweepValues, expand_overrides
from rlher.config.trust import require_trusted_code, trusts_code
from rlher.core.errors import UserError
from rlher.core.nested import flatten

PARAMETER = re.compile(r"([\w.]+):(.*)", re.DOTALL)
"""A hyperparameter, which follows ``-params``."""

KEYS_OF_HYPERPARAMETERS: dict[str, str | None] = {
    "n_timesteps": "total_timesteps",
    "n_envs": "n_envs",
    "normalize": "normalize.enabled",
    "normalize.norm_obs": "normalize.enabled",
    "normalize.clip_obs": "normalize.clip",
    **dict.fromkeys(("normalize.norm_reward", "policy", "replay_buffer_class", "noise_type")),
    "net_arch": "algo.net_arch",
    "noise_std": "algo.action_noise",
    "env_wrapper": "env.wrappers",
    "callback": "callbacks",
    "policy_kwargs.net_arch": "algo.net_arch",
    "policy_kwargs.activation_fn": "algo.activation",
    "policy_kwargs.n_critics": "algo.n_critics",
    "policy_kwargs.n_quantiles": "algo.n_quantiles",
    "env_kwargs.max_episode_steps": "env.max_episode_steps",
}
"""Config key of each name in ``-params`` and YAML files, None for an ignored name. Other names are keys of ``algo``."""

SECTIONS_OF_DICTS = {"policy_kwargs": "algo.policy_kwargs", "replay_buffer_kwargs": "her", "env_kwargs": "env.kwargs"}
"""The config section of each ``dict(...)`` of RL Zoo."""

NOT_IN_SB3 = {"target_q_bounds": None, "action_noise": 0.0}
"""Values with which rlher's own keys of an algorithm have no effect."""

NET_ARCH_OF_SB3 = {"ddpg": [400, 300], "dqn": [64, 64], "td3": [400, 300]}
"""Default hidden layers of SB3's policies where they are not [256, 256], by algorithm."""


def add_command(argv: list[str], commands: Iterable[str]) -> list[str]:
    """Return a command line that begins with a command of rlher.

    RL Zoo's ``--algo sac --env X`` has no command. Other tools write ``train --resume`` for ``resume``.
    """
    given = {word.partition("=")[0] for word in argv}
    if argv[0].startswith("-") and given & {"--algo", "--env"} and set(commands).isdisjoint(argv):
        return ["optimize" if "--n-trials" in given else "train", *argv]
    if argv[0] == "train" and "--resume" in given:
        return ["resume", *(word.removeprefix("--resume=") for word in argv[1:] if word != "--resume")]
    return argv


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add RL Zoo's flags to the parser of a command. A flag that sets a config key has the key as its ``dest``."""
    parser.add_argument("-n", "--n-timesteps", dest="total_timesteps")
    parser.add_argument("--eval-freq", dest="eval.freq")
    parser.add_argument("--eval-episodes", dest="eval.episodes")
    parser.add_argument("--n-jobs", dest="workers")
    parser.add_argument("--num-threads", dest="threads")
    parser.add_argument("--track", dest="logger", action="store_const", const="wandb")
    parser.add_argument("-params", "--hyperparams", dest="params", nargs="*", action="extend")
    parser.add_argument("-conf", "--conf-file", type=Path)


def translate_hyperparameters(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the hyperparameters among the words after ``-params``, by config key, and the other words.

    :raises UserError: rlher does not support the value of a hyperparameter.
    """
    parameters = [match.groups() for match in map(PARAMETER.fullmatch, words) if match]
    others = [word for word in words if not PARAMETER.fullmatch(word)]  # -params batch_size:64 seed=1
    return to_config_keys({name: parse_python_literal(text) for name, text in parameters}), others


def to_config_keys(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return RL Zoo's hyperparameters by config key.

    :raises UserError: rlher does not support one of the values.
    """
    translation: dict[str, Any] = {}
    for name, value in flatten(hyperparameters, lambda name, _: name in ("normalize", *SECTIONS_OF_DICTS)):
        if name == "noise_type" and value != "normal":
            raise UserError(f"noise_type={value} is not supported; use noise_type=normal.")
        if name == "train_freq" and isinstance(value, list):  # [16, "step"]
            if value[1:] != ["step"]:
                raise UserError(f"train_freq={value} counts episodes, which is not supported; give a number of steps.")
            value = value[0]
        if name == "policy_kwargs.activation_fn":  # nn.ReLU
            value = str(value).rpartition(".")[2].lower()
        if name == "gradient_steps" and value == -1:
            value = None
        if name == "learning_rate" and str(value).startswith("lin_"):
            translation["algo.learning_rate_schedule"] = "linear"
            value = parse_python_literal(value.removeprefix("lin_"))
        section, dot, rest = name.partition(".")
        prefix = SECTIONS_OF_DICTS.get(section, f"algo.{section}")
        key = KEYS_OF_HYPERPARAMETERS.get(name, f"{prefix}{dot}{rest}")
        if key is not None and value != {}:
            translation[key] = value
    return translation


def file_overrides(path: Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a YAML file of RL Zoo that are not given, with SB3's defaults for missing values.

    :param overrides: overrides of the command line. They choose algorithm and environment, and may trust the file.
    :raises UserError: the file cannot be read, has no entry for the environment, or names code that is not trusted; or
        the overrides choose no algorithm, or several algorithms or environments.
    """
    algo, env = overrides.get("algo"), overrides.get("env")
    if algo is None or isinstance(algo, SweepValues) or isinstance(env, SweepValues):
        raise UserError(f"{path} has the values of one environment for one algorithm; choose one of each.")
    given = expand_overrides(overrides)  # her=off sets her.n_sampled_goal, too
    algo = given["algo"]  # for the user's own class, the algorithm that it extends
    entries = read_mapping(path, has_aliases=True)
    entry = entries.get(str(env), entries.get("default"))
    if not isinstance(entry, dict):
        raise UserError(f"{path} has no entry for env={env}; RL Zoo's files have one for each environment.")
    defaults: dict[str, Any] = {}
    if algo in ALGORITHMS:
        parameters = inspect.signature(resolve_name(ALGORITHMS[algo].sb3_class)).parameters
        sb3_defaults = {name: argument.default for name, argument in parameters.items() if argument.default is not None}
        names = [field.name for field in fields(ALGORITHMS[algo].config)]
        sb3_defaults |= NOT_IN_SB3 | {"net_arch": NET_ARCH_OF_SB3.get(algo, [256, 256])}
        defaults = {name: value for name, value in sb3_defaults.items() if name in names}
    values = {str(name): parse_python_literal(value) for name, value in entry.items()}
    require_trusted_code(path, expand_overrides(to_config_keys(values)), trusts_code(overrides))
    in_file = {"recipe": None, "normalize.enabled": False, **to_config_keys(defaults | values)}
    return {key: value for key, value in in_file.items() if key not in given}


def parse_python_literal(text: Any) -> Any:
    """Return the value of a Python expression as RL Zoo writes it, such as ``dict(net_arch=[64, 64])``.

    Names and all other expressions stay text. Values that are not text stay unchanged. Nothing is executed.
    """
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):  # {[]: 1}; nested too deeply
        return text


def _value(node: ast.AST) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
    if isinstance(node, ast.List | ast.Tuple):
        return list(map(_value, node.elts))
    if isinstance(node, ast.Name | ast.Attribute):
        return ast.unparse(node)
    return ast.literal_eval(node)
