"""Search spaces: YAML files shaped like a recipe, with a range or choices in place of each value.

- ``her: {n_sampled_goal: {low: 1, high: 8}}`` is a range. It is logarithmic with ``log: true``.
- ``{choices: [a, b]}`` is a choice.
- ``only: [sac, td3]`` restricts a key to these algorithms.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from rlher.config.algorithms import algorithms_with_key
from rlher.config.assignment import set_value
from rlher.config.conf_files import conf_files, find_conf_file, is_yaml_path, read_mapping
from rlher.config.key import validate, values_by_key
from rlher.config.training import RunConfig
from rlher.config.trust import require_trusted_code
from rlher.core.errors import UserError, did_you_mean
from rlher.core.nested import to_dotted_keys
from rlher.core.reading import finite_float
from rlher.her.strategies import DEFAULT_MIX, STRATEGIES

SearchSpace = dict[str, BaseDistribution]
TUNABLE = ("algo.", "her.", "normalize.")
ENTRY_WORDS = ("low", "high", "log", "choices", "only")
MIX = "her.goal_mix."


def load_space(name: str, config: RunConfig) -> SearchSpace:
    """Return the search space, validated against the schema and widened to contain the config's own values.

    :param name: files of ``conf/space`` joined by ``+``, or the path of a YAML file.
    :param config: the baseline, which is trial 0.
    :return: dotted key → distribution.
    :raises UserError: there is no such space, a key is unknown, the schema refuses a value, or the file names code.
    """
    space: SearchSpace = {}
    for part in name.split("+"):
        try:
            space |= _load_part(part, config)
        except (ValueError, UserError) as error:
            raise UserError(f"search space {part!r}: {' '.join(str(error).split()).rstrip('.')}.") from error
    if not space:
        raise UserError(f"the space {name!r} has no key for algo={config.algo.name}; add one or choose another space.")
    return space


def _load_part(name: str, config: RunConfig) -> SearchSpace:
    """Return the distributions of one file for the config's algorithm.

    :raises ValueError: the file is not a search space. The functions below raise ValueError as well.
    """
    file = find_conf_file("space", name)
    if file is None:
        bundled = conf_files("space")
        raise ValueError(f"{name!r} is no space{did_you_mean(name, bundled)}; use {', '.join(bundled)} or a YAML file")
    entries = _entries(read_mapping(file))
    if is_yaml_path(name):
        require_trusted_code(file, {key: entry.get("choices") for key, entry in entries.items()}, config.trust_code)
    algo = config.algo.name
    return {
        key: _distribution(key, entry, config) for key, entry in entries.items() if algo in entry.get("only", [algo])
    }


def _entries(tree: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the mapping of each range or choice by dotted key."""
    entries: dict[str, dict[str, Any]] = {}
    for path, value in to_dotted_keys(tree):
        key, _, word = path.rpartition(".")
        if word not in ENTRY_WORDS:
            form = "write {low: ..., high: ...} or {choices: [...]}"
            raise ValueError(f"{path}={value} is not a range{did_you_mean(word, ENTRY_WORDS)}; {form}")
        entries.setdefault(key, {})[word] = value
    return entries


def baseline_params(space: SearchSpace, config: RunConfig) -> dict[str, Any]:
    """Return the config's own values of the space's keys, as Optuna stores them: the parameters of trial 0."""
    values = _tunable_values(config)
    return {key: encode(values[key]) for key in space}


def apply_params(config: RunConfig, params: Mapping[str, Any]) -> RunConfig:
    """Return the config with a trial's parameters, validated against the schema.

    :raises UserError: the schema refuses a key or value.
    """
    changed = copy.deepcopy(config)
    if any(key.startswith(MIX) for key in params) and not config.her.goal_mix:
        changed.her.goal_mix = dict(DEFAULT_MIX)  # weights that the space does not tune keep their default
    for key, value in params.items():
        set_value(changed, key, decode(value))
    validate(changed)
    return changed


def encode(value: Any) -> Any:
    """Return a value as Optuna's databases can store it: lists and mappings as JSON."""
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)


def decode(value: Any) -> Any:
    """Return the original value of what :func:`encode` returned."""
    return json.loads(value) if isinstance(value, str) and value[:1] in ("[", "{") else value


def format_value(value: Any) -> str:
    """Return a parameter for a table; a list without blanks."""
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace(" ", "")


def _distribution(key: str, entry: dict[str, Any], config: RunConfig) -> BaseDistribution:
    """Return an entry's distribution, widened to contain the config's own value. The schema must accept both ends."""
    baseline_value = _baseline_value(key, config)
    if "choices" in entry:
        choices = entry["choices"]
        if not isinstance(choices, list):
            raise ValueError(f"{key}: choices={choices!r} is not a list")
        ends = choices if baseline_value in choices else [*choices, baseline_value]
        distribution: BaseDistribution = CategoricalDistribution([encode(choice) for choice in ends])
    else:
        distribution, ends = _range(key, entry, baseline_value)
    for end in ends:
        apply_params(config, {key: encode(end)})
    return distribution


def _range(key: str, entry: dict[str, Any], baseline_value: Any) -> tuple[BaseDistribution, list[Any]]:
    """Return the distribution of a range, and its two ends."""
    if finite_float(baseline_value) is None:
        raise ValueError(f"{key} is {baseline_value!r} in the baseline; use choices, or set a number, {key}=...")
    ends: list[Any] = [entry.get("low"), entry.get("high")]
    if None in map(finite_float, ends):
        raise ValueError(f"{key} needs choices, or low and high as numbers")
    low, high = min(*ends, baseline_value), max(*ends, baseline_value)
    log = bool(entry.get("log"))
    if log and low <= 0:
        raise ValueError(f"{key}, {baseline_value} in the baseline, has to be above 0; or leave out log: true")
    if isinstance(baseline_value, int):
        return IntDistribution(int(low), int(high), log), [low, high]
    return FloatDistribution(float(low), float(high), log), [float(low), float(high)]


def _baseline_value(key: str, config: RunConfig) -> Any:
    """Return the config's value of a key that can be tuned."""
    known = _tunable_values(config)
    if key in known:
        return known[key]
    if others := algorithms_with_key(key):
        raise ValueError(f"algo={config.algo.name} has no {key}; add only: [{', '.join(others)}] to it")
    raise ValueError(f"{key} is not a key that can be tuned{did_you_mean(key, known)}")


def _tunable_values(config: RunConfig) -> dict[str, Any]:
    """Return the config's values of all keys that can be tuned, the weights of a mix included."""
    weights = dict.fromkeys(STRATEGIES, 0.0) | (config.her.goal_mix or DEFAULT_MIX)
    values = {name: value for name, value in values_by_key(config).items() if name.startswith(TUNABLE)}
    return values | {MIX + name: weight for name, weight in weights.items() if name != "mix"}
