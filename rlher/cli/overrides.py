"""From what a person types after the verb to what Hydra reads: flags, a positional run folder, ids and paths.

Every plain key of a verb's schema is a flag too (``total_timesteps`` is ``--total-timesteps``), so flags need no table
of their own. Hydra 1.3 wants its own flags before all overrides; here they may come in any order.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from rlher.config.algorithms import ALGORITHMS
from rlher.config.environment import BitFlippingConfig
from rlher.config.key import dotted_keys
from rlher.config.override_syntax import literal, quote
from rlher.config.store import VERB_SCHEMAS
from rlher.core.errors import UserError, did_you_mean, first_line
from rlher.core.files import read_yaml
from rlher.core.nested import flatten

HYDRA_SWITCHES = ("-m", "--multirun", "--resolve", "--hydra-help")
HYDRA_FLAGS = {
    "-c": "--cfg",
    "-p": "--package",
    "-cd": "--config-dir",
    "-cn": "--config-name",
    "-i": "--info",
}
GROUPS = ("algo", "env", "her", "engine", "preset")
# conf/space is a folder, so Hydra would take space=... for one of its groups; ours may also be joined or a path.
SHORT = {"space=": "search_space=", "--space": "--search-space", "--stochastic": "--no-deterministic"}


def flags(verb: str) -> dict[str, tuple[str, Any, str]]:
    """List a verb's flags: flag → (key, default, text); a list is typed with commas."""
    found = {}
    for item in fields(VERB_SCHEMAS[verb]):
        default = item.default if item.default_factory is MISSING else item.default_factory()
        if not is_dataclass(default) and item.name != "runs":  # those are what stands without a flag
            found["--" + item.name.replace("_", "-")] = (item.name, default, item.metadata["text"])
    return found


def to_hydra(verb: str, argv: list[str]) -> list[str]:
    """Turn what follows the verb into Hydra's command line, its flags first.

    :raises UserError: an unknown flag, or a flag without its value.
    """
    hydra_flags: list[str] = []
    overrides: list[str] = []
    places: list[str] = []
    words = iter(
        re.sub(r"^(space=|--space(?=$|=)|--stochastic$)", lambda found: SHORT[found[1]], word) for word in argv
    )
    for word in words:
        if word in HYDRA_SWITCHES:
            hydra_flags.append(word)
        elif word.partition("=")[0] in (*HYDRA_FLAGS, *HYDRA_FLAGS.values()):
            flag, equals, value = word.partition("=")
            hydra_flags += [flag, value if equals else _value_of(flag, words)]
        elif word.startswith("--"):
            overrides.append(_flag_to_override(verb, word, words))
        elif positional(verb) and _is_place(word):
            places.append(quote(word))
        elif ("=" not in word and not word.startswith("~")) or word.startswith("="):
            flag = "--" + word.replace("_", "-")
            near = f" (did you mean {flag} or {word}=...?)" if flag in flags(verb) else ""
            raise UserError(f"{word!r} is neither a flag nor key=value{near}.")
        else:
            overrides.append(word.removeprefix(f"{verb}."))  # optimize.n_seeds=3 is n_seeds=3
    if len(places) > 1 and positional(verb) == "run":
        raise UserError(f"`rlher {verb}` takes one run, not {len(places)}.")
    if places:
        overrides.insert(0, f"run={places[0]}" if positional(verb) == "run" else f"runs=[{','.join(places)}]")
    _require_sense(hydra_flags)
    config_dirs = [value for flag, value in pairwise(hydra_flags) if flag in ("-cd", "--config-dir")]
    recipes = [word for word in overrides if _is_recipe(word)]
    typed = [each for word in overrides if word not in recipes for each in _expand(word, config_dirs)]
    _require_readable(typed, config_dirs)
    # A recipe file comes first, so that whatever was typed wins over it.
    return hydra_flags + [each for word in recipes for each in _recipe_overrides(word, typed)] + typed


def resumes(argv: Sequence[str]) -> bool:
    """Tell whether a command line of ``rlher train`` asks to go on with a run."""
    return any(word.partition("=")[0] in ("--resume", "resume") for word in argv)


def _is_place(word: str) -> bool:
    """Tell a run folder from an override; a folder may be called ``lr=0.1``."""
    return ("=" not in word or Path(word).is_dir()) and not word.startswith(("-", "~", "+"))


def positional(verb: str) -> str | None:
    """Return the key that words without a flag are for: run folders, where a verb reads them."""
    names = [item.name for item in fields(VERB_SCHEMAS[verb])]
    return next((name for name in ("run", "runs") if name in names), None)


def _require_sense(hydra_flags: list[str]) -> None:
    """Refuse pairs of Hydra's flags that Hydra itself answers with a traceback, or not at all."""
    if "--cfg" in hydra_flags or "-c" in hydra_flags:
        if "-m" in hydra_flags or "--multirun" in hydra_flags:
            raise UserError("--cfg prints the config of one run: leave -m and the sweep out.")
        if "--resolve" not in hydra_flags:
            hydra_flags.append("--resolve")
    elif "-p" in hydra_flags or "--package" in hydra_flags:
        raise UserError("-p names a part of what --cfg job prints: add --cfg job.")


def _value_of(flag: str, words: Iterator[str]) -> str:
    value = next(words, None)
    if value is None:
        raise UserError(f"{flag} needs a value.")
    return value


def _flag_to_override(verb: str, word: str, words: Iterator[str]) -> str:
    known = flags(verb)
    flag, equals, value = word.partition("=")
    negated = flag.startswith("--no-") and isinstance(known.get("--" + flag[5:], (None,) * 2)[1], bool)
    if negated:
        flag = "--" + flag[5:]
    if flag[2:] in GROUPS and flag[2:] in [item.name for item in fields(VERB_SCHEMAS[verb])]:
        return f"{flag[2:]}={value if equals else _value_of(flag, words)}"
    if flag not in known:
        raise UserError(f"`rlher {verb}` has no flag {flag}{did_you_mean(flag, known)}.")
    key, default, _ = known[flag]
    if key == "recipe":
        return f"tuned={value if equals else _value_of(flag, words)}"
    if isinstance(default, bool) and not equals:
        return f"{key}={'false' if negated else 'true'}"
    if isinstance(default, list):
        entries = (value if equals else _value_of(flag, words)).split(",")
        return f"{key}=[{','.join(quote(entry) for entry in entries if entry)}]"
    return f"{key}={quote(value if equals else _value_of(flag, words))}"


def _expand(word: str, config_dirs: list[str]) -> list[str]:
    """Let ``env=`` take any registered id and mappings any key; a key that needs no ``+`` gets none."""
    key, _, value = word.partition("=")
    if key.lstrip("+") != key and not key.lstrip("+").startswith("hydra"):
        # With its + Hydra would take any key, and a misspelt one would then do nothing.
        return _expand(word.lstrip("+"), config_dirs)
    if key in GROUPS and value in ("", "null"):
        raise UserError(f"{word}: {key} needs a name; there are {', '.join(options(key))}.")
    if key == "tuned" and value != "null":
        for name in value.split(","):
            if not _has_config("tuned", name, config_dirs):
                near = did_you_mean(name, options("tuned"))
                raise UserError(f"there is no recipe {name!r}{near}. A recipe of your own is tuned=<file>.yaml.")
    if key == "env" and value and not re.search(r"[,(\[{$']", value) and not _has_config("env", value, config_dirs):
        return ["env=any", f"env.id={quote(value)}"]
    if re.match(r"(env\.kwargs|algo\.kwargs|her\.goal_mix)(\.|$)", key):
        return [f"++{word}"]  # open mappings: Hydra's plain form only changes keys that are there already
    if re.fullmatch(r"[\d.]+e\+?\d+", value, re.IGNORECASE) and key in _whole_keys() and float(value).is_integer():
        return [f"{key}={int(float(value))}"]  # 1e5 steps
    return [word]


def _require_readable(typed: list[str], config_dirs: list[str]) -> None:
    """Refuse a file of one's own that Hydra would take for ever to read: a few aliases stand for billions of values."""
    for key, _, value in (word.partition("=") for word in typed):
        for path in (Path(folder) / key / f"{name}.yaml" for folder in config_dirs for name in value.split(",")):
            if path.is_file():
                try:
                    read_yaml(path)
                except (OSError, ValueError) as error:
                    raise UserError(f"cannot read {path}: {first_line(error)}.") from error


def _whole_keys() -> set[str]:
    return {
        name for name, item in _known_keys().items() if str(getattr(item.type, "__name__", item.type)).startswith("int")
    }


def _has_config(group: str, name: str, config_dirs: list[str]) -> bool:
    return name in options(group) or any((Path(folder) / group / f"{name}.yaml").is_file() for folder in config_dirs)


def _is_recipe(word: str) -> bool:
    return word.startswith("tuned=") and word.endswith((".yaml", ".yml"))


def _recipe_overrides(word: str, typed: list[str]) -> list[str]:
    """Read a recipe file as overrides, less what a typed ``her=`` decides."""
    path = Path(word.partition("=")[2])
    try:
        recipe = read_yaml(path)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the recipe {path}: {error}") from error
    if not isinstance(recipe, dict):
        raise UserError(f"{path} is not a recipe: it must be a mapping of keys to values.")
    words = [f"{key}={literal(value)}" for key, value in flatten(recipe) if key != "defaults"]
    chosen = [name for word in typed if word.startswith("her=") for name in _keys_of("her", word[4:])]
    kept = [word for word in words if word.partition("=")[0] not in chosen]
    return ["~tuned", f"recipe={quote(str(path))}", *(each for word in kept for each in _expand(word, []))]


def _keys_of(group: str, name: str) -> list[str]:
    """List the keys that a file of a config group sets."""
    file = resources.files("rlher.conf") / group / f"{name}.yaml"
    return [f"{group}.{key}" for key in yaml.safe_load(file.read_text()) or {}] if file.is_file() else []


def options(group: str) -> list[str]:
    """List the YAML files of a config group, without their ending."""
    folder = resources.files("rlher.conf") / group
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def closest_key(key: str) -> str:
    """Hint at the keys nearest to a misspelt one, as :func:`did_you_mean`; ``lr`` is near ``learning_rate``."""
    known = list(_known_keys())
    if key in known:
        return ": it belongs to another algorithm, environment or verb"
    group, _, name = key.rpartition(".")
    initials = [each for each in known if "".join(word[0] for word in each.rpartition(".")[2].split("_")) == name]
    same_name = [each for each in known if each.rpartition(".")[2] == name]
    near = same_name or [each for each in initials if each.rpartition(".")[0] == group]
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else did_you_mean(key, known)


def _known_keys() -> dict[str, Field]:
    found: dict[str, Field] = {}
    for each in VERB_SCHEMAS.values():
        found |= dotted_keys(each)
    for algorithm in ALGORITHMS.values():
        found |= dotted_keys(algorithm.config, "algo.")
    return found | dotted_keys(BitFlippingConfig, "env.")


def recipe_in_force(runtime: Any) -> str | None:
    """Return the recipe that Hydra composed the config with, None where the pair has none.

    :param runtime: ``HydraConfig.get().runtime``.
    """
    name = runtime.choices.get("tuned")
    folders = [source.path for source in runtime.config_sources if source.schema == "file"]
    return name if name and _has_config("tuned", name, folders) else None
