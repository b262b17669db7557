"""Translation of RL Zoo's command line into rlher's, by the rows of :mod:`rlher.cli.zoo_table`."""

import ast
import glob
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

from rlher.cli import overrides
from rlher.cli.commands import command_names, load_command
from rlher.cli.config_files import read_file
from rlher.cli.flags import groups, positional
from rlher.cli.zoo_table import FLAGS, PARAMETERS, RUN_PARTS, SB3_DEFAULTS, SCRIPTS, Row
from rlher.config.override_syntax import literal
from rlher.core.console import command_line
from rlher.core.errors import UserError
from rlher.runs import bundled_agents, lookup
from rlher.runs.command_file import is_resume
from rlher.runs.run_folder import safe_name

HYDRA_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""Values of Hydra's flag ``-i``, which is ``--trained-agent`` of RL Zoo with any other value."""


@dataclass
class Translation:
    """A command line in rlher's words.

    :param words: after the command.
    :param variables: environment variables to set.
    :param run: parts of a run folder's path, by the names of ``RUN_PARTS``.
    :param notes: what differs from RL Zoo, a line each.
    :param file: YAML file of hyperparameters, whose entry for the environment is added at the end.
    """

    command: str
    words: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    run: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    file: Path | None = None

    def add(self, typed: str, name: str, row: Row, value: str) -> None:
        """Add the words of a row.

        :param typed: flag and value, for messages.
        :param value: in Hydra's syntax.
        :raises UserError: the row refuses it.
        """
        if row.rlher is None:
            raise UserError(f"{typed} of RL Zoo has no equivalent in `rlher {self.command}`: {row.note}.")
        key = name.rpartition(".")[2]
        inner = value[1:-1] if value.startswith("[") and "[{}]" in row.rlher else value
        for word in row.rlher.split():
            variable, _, _ = word.partition("=")
            word = word.replace("{key}", key).replace("{}", inner)
            if variable.isupper():
                self.variables[variable] = word.partition("=")[2]
            else:
                self.words.append(word)
        if row.note and not row.rlher:
            self.notes.append(f"{typed}: {row.note}")


def to_rlher(argv: Sequence[str]) -> list[str]:
    """Return rlher's command line for one of RL Zoo, and print it to stderr; any other one is returned as it is.

    :raises UserError: rlher has nothing for a flag or a script; the message says what to do instead.
    """
    command, typed = split_command(argv)
    is_help = not {"-h", "--help"}.isdisjoint(typed)
    if command not in FLAGS or (command == "collect" and not _has_algo(typed)):
        return list(argv)
    if is_help:
        return [command, *typed]
    found = translate(command, typed)
    words = [found.command, *found.words]
    if words != list(argv):
        os.environ.update(found.variables)
        variables = [f"{name}={value}" for name, value in found.variables.items()]
        print(f"read as: {command_line([*variables, 'rlher', *words])}", file=sys.stderr)
        for note in found.notes:
            print(f"  {note}", file=sys.stderr)
    return words


def _has_algo(typed: Sequence[str]) -> bool:
    """Return whether ``--algo`` is typed; without it ``--env`` of `rlher collect` is where a controller plays."""
    return any(word.partition("=")[0] in RUN_PARTS["algo"].split(", ") for word in typed)


def split_command(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command of a command line, and the words after it.

    A line without a command that names an algorithm or environment trains. RL Zoo's own, such as
    ``python -m rl_zoo3.train``, may stand in place of the command.

    :raises UserError: RL Zoo's script has no command.
    """
    words = list(argv)
    if words and re.fullmatch(r"python[\d.]*", words[0]):
        words = words[2:] if words[1:2] == ["-m"] else words[1:]
    if words[:1] == ["rl_zoo3"]:
        words = words[1:]
    first = words[0] if words else ""
    if first not in command_names():
        name = re.sub(r"^rl_zoo3\.|.*/|\.py$", "", first)
        for script in SCRIPTS:
            if name in (script.name, script.name.rpartition(".")[2]):
                if script.command is None:
                    raise UserError(f"rlher has no {script.name} of RL Zoo; {script.note}.")
                return script.command, words[1:]
        if any(re.match(r"--?(algo|env)\b|algo=|env=", word) for word in words) and re.match(r"-|\w+=", first):
            return "train", words
    return first, words[1:]


def translate(command: str, typed: Sequence[str]) -> Translation:
    """Translate the words after a command.

    :raises UserError: a flag is refused, or a file cannot be read.
    """
    switches = [row.command for row in FLAGS[command] if row.command and not set(_names(row)).isdisjoint(typed)]
    command = switches[0] if switches else command
    found = _translate_rows(command, typed, FLAGS[command])
    if found.run and _names_run(found):
        found = _keep_named_run(command, typed)
    elif found.run:
        found.words = [*(_curves(found.run) if _takes_many(command) else _run_folder(found)), *found.words]
    if command in ("enjoy", "evaluate") and not any(re.match(r"(--)?env(=|$)", word) for word in found.words):
        _drop_modules(found)
    return found


def _drop_modules(found: Translation) -> None:
    """Drop the modules of the environment: only a Stable-Baselines3 zip does not name its own."""
    for word in [word for word in found.words if word.startswith("env.modules=")]:
        found.words.remove(word)
        found.notes.append(f"{word}: the run folder names its modules")


def _names(row: Row) -> list[str]:
    return row.names.split(", ")


def _translate_rows(command: str, typed: Sequence[str], rows: Sequence[Row]) -> Translation:
    found, rest = Translation(command), list(typed)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        fitting = [row for row in rows if flag in _names(row)]
        is_hydras = flag == "-i" and (value if equals else "".join(rest[:1])) in HYDRA_INFO
        if not fitting or is_hydras or (equals and fitting[0].kind == "switch"):
            found.words.append(word)
        else:
            values = [value] if equals else _take_values(fitting[0], rest, flag, _takes_many(command))
            _translate_flag(found, flag, values, fitting)
    if found.file is not None:
        if is_resume(found.words):
            raise UserError(f"a resumed run keeps its hyperparameters; leave {found.file} out.")
        _add_file(found, found.file)
    return found


def _takes_many(command: str) -> bool:
    """Return whether a command takes several runs."""
    words = positional(load_command(command))
    return words is not None and words.name == "runs"


def _take_values(row: Row, rest: list[str], flag: str, many: bool) -> list[str]:
    """Remove what follows a flag from the words after it, and return it.

    :param many: the command takes several runs; with another one, the word after ``--algo sac`` may be the run.
    :raises UserError: there is nothing.
    """
    if row.kind == "switch":
        return []
    patterns = {"list": r"[^-=][^=]*", "pairs": r"[\w.]+:.*", "run": r"[^-=][^=]*|-\d+"}
    is_list = row.kind in patterns and (many or row.kind != "run")
    values: list[str] = []
    while rest and (is_list or not values) and re.fullmatch(patterns.get(row.kind, r"(?s:.*)"), rest[0]):
        values.append(rest.pop(0))
    if not values:
        raise UserError(f"{flag} needs a value, such as {row.example}.")
    return values


def _translate_flag(found: Translation, flag: str, values: list[str], rows: list[Row]) -> None:
    typed = " ".join([flag, *values])
    row = next((row for row in rows if _fits(row, " ".join(values))), None)
    if row is None:
        raise UserError(f"{typed} has no equivalent; use one of {', '.join(row.example for row in rows)}.")
    if row.kind == "run":
        part = next(part for part, names in RUN_PARTS.items() if flag in names.split(", "))
        found.run.setdefault(part, []).extend(values)
    elif row.kind == "pairs" and row.rlher is not None:
        prefix = "env_kwargs." if flag == "--env-kwargs" else ""
        pairs = (value.partition(":") for value in values)
        _add_parameters(found, {prefix + name: read_python(text) for name, _, text in pairs})
    elif row.kind == "file":
        found.file = Path(values[0])
    elif row.rlher and row.rlher.startswith("--"):  # a flag of rlher
        found.words += [flag, *values]
    else:
        found.add(typed, flag, row, ",".join(values) if row.kind == "list" else literal("".join(values)))


def _fits(row: Row, value: str) -> bool:
    if row.pattern:
        return re.fullmatch(row.pattern, value) is not None
    return not row.exact or row.example == value


# ------------------------------------------------------------------------------------------- hyperparameters


def _add_parameters(found: Translation, values: dict[str, Any]) -> None:
    """Add hyperparameters as ``-params`` takes them.

    :raises UserError: one has no equivalent.
    """
    if isinstance(values.get("normalize"), dict):
        values |= {"normalize": True, "normalize_kwargs": values["normalize"]}
    sections = {row.names.partition(".")[0] for row in PARAMETERS if "." in row.names}
    for section in [name for name in values if name in sections]:
        inner = values.pop(section)
        if isinstance(inner, str):  # quoted twice
            inner = read_python(inner)
        if not isinstance(inner, dict):
            raise UserError(f"{section}:{inner} is not a dict(...) of names and values.")
        values |= {f"{section}.{name}": value for name, value in inner.items()}
    for name, value in values.items():
        rows = [row for row in PARAMETERS if fnmatchcase(name, row.names)]
        row = next(row for row in rows if _holds(row, value))
        if row.pattern and (group := re.fullmatch(row.pattern, str(value))) and group.groups():
            value = group[1]
        whole = isinstance(value, float) and value.is_integer()  # RL Zoo writes n_timesteps: !!float 1e6
        found.add(f"{name}:{value}", name, row, literal(int(value) if whole else value))


def _holds(row: Row, value: Any) -> bool:
    if row.pattern:
        return re.fullmatch(row.pattern, str(value)) is not None
    return not row.exact or _example(row) == value


def _example(row: Row) -> Any:
    value = read_python(row.example.partition(":")[2])
    return value[row.names.rpartition(".")[2]] if isinstance(value, dict) else value


def _add_file(found: Translation, path: Path) -> None:
    """Add the entry of a YAML file of RL Zoo for the environment of the command line, before all other words.

    :raises UserError: the file cannot be read or has no entry for the environment.
    """
    if path.suffix == ".py":
        raise UserError(f"{path} is a Python file, which is not run; write its hyperparameters as YAML.")
    entries = read_file(path)
    env = _chosen(found, "env") or "default"
    entry = entries.get(env, entries.get("default")) if isinstance(entries, dict) else None
    if not isinstance(entry, dict):
        raise UserError(f"{path} has no entry {env!r}; RL Zoo's files have one for each environment.")
    if odd := [name for name in entry if not isinstance(name, str)]:
        raise UserError(f"{path} has {odd[0]!r} among the hyperparameters of {env!r}, which is no name; remove it.")
    defaults = SB3_DEFAULTS.get(_chosen(found, "algo") or "", "").split()
    words, found.words = found.words, ["recipe=null", "normalize.enabled=false", "normalize.clip=10", *defaults]
    values = {name: read_python(value) if isinstance(value, str) else value for name, value in entry.items()}
    _add_parameters(found, values)
    found.words += words


def _chosen(found: Translation, group: str) -> str | None:
    """Return the name that ``--<group> <name>`` or ``<group>=<name>`` chooses, the last one of several."""
    names = [word for flag, word in pairwise(found.words) if flag == f"--{group}"]
    names += [word.removeprefix(f"{group}=") for word in found.words if word.startswith(f"{group}=")]
    return names[-1] if names else None


def read_python(text: str) -> Any:
    """Return the value of a Python expression as RL Zoo writes it, such as ``dict(net_arch=[64, 64])``.

    Names stay text, as does what is no such expression. Nothing is executed.
    """
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):  # {[]: 1}; nested too deeply
        return text


def _value(node: ast.AST) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return {str(each.arg): _value(each.value) for each in node.keywords}
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Name | ast.Attribute):
        return re.sub(r"^(torch|th)\.nn\.", "nn.", ast.unparse(node))
    return ast.literal_eval(node)


# ------------------------------------------------------------------------------------------------ run folders


def _names_run(found: Translation) -> bool:
    """Return whether the words name a run or agent in rlher's own way."""
    line = overrides.split(load_command(found.command), found.words)
    return bool(line.positionals) or any(re.match("(runs?|agent)=", word) for word in line.overrides)


def _keep_named_run(command: str, typed: Sequence[str]) -> Translation:
    """Translate the words after a command that name a run, and a part of a run's path besides.

    Of the parts a named run can need the folder that it is looked up in, and the environment of a zip.
    """
    kept = RUN_PARTS["env"].split(", ") if "env" in groups(load_command(command)) else []
    names = [(row, [name for name in _names(row) if row.kind != "run" or name not in kept]) for row in FLAGS[command]]
    found = _translate_rows(command, typed, [replace(row, names=", ".join(left)) for row, left in names])
    for part, values in found.run.items():
        if part == "folder":
            found.words.append(f"logs={literal(values[-1])}")
        else:
            found.notes.append(f"{' '.join(values)}: not needed, the run itself is named")
    return found


def _run_folder(found: Translation) -> list[str]:
    """Return the words for the run that ``--algo``, ``--env``, ``-f`` and ``--exp-id`` name.

    Dry runs do not count, unless ``--exp-id`` names one.

    :raises UserError: there is none.
    """
    if set(found.run) == {"folder"}:
        return [f"logs={literal(found.run['folder'][-1])}"]
    folder, algo, env, number = (found.run.get(part, [""])[-1] for part in ("folder", "algo", "env", "number"))
    runs = _numbered(Path(folder or "logs"), algo, env)
    if number not in ("", "0"):
        runs = [run for run in runs if run.name.endswith(f"_{number}")]
    else:
        runs = [run for run in runs if not lookup.is_dry_run(run)]
    if runs:
        run = runs[-1] if algo else max(runs, key=_modified)
        zoo = run / ("best_model.zip" if "checkpoint=best" in found.words else f"{env}.zip")
        return [str(run)] if (run / "config.yaml").exists() or not zoo.exists() else [str(zoo), f"env={env}"]
    agents = [f"{algo}-{env}"] if found.command != "export" and folder in ("", "rl-trained-agents") else []
    if agents and agents[0] in bundled_agents.names():
        return [f"agent={agents[0]}"]
    name = f"{folder or 'logs'}/{algo or '*'}/{env or '*'}_{number if number not in ('', '0') else '*'}"
    others = _numbered(Path(folder or "logs"), "")
    hint = f"the newest run is {max(others, key=_modified)}" if others else "train one with `rlher train`"
    raise UserError(f"there is no run {name}; {hint}.")


def _modified(path: Path) -> float:
    return path.stat().st_mtime


def _curves(parts: dict[str, list[str]]) -> list[str]:
    """Return the run folders of some algorithms and environments, as ``plots/all_plots.py`` selects them."""
    folders, algos, envs = parts.get("folder", ["logs"]), parts.get("algo", [""]), parts.get("env", [""])
    found = [
        str(run)
        for folder in folders
        for algo in algos
        for run in _numbered(Path(folder), algo.lower())
        if any(env in run.name for env in envs)
    ]
    if not found:
        raise UserError(f"there is no run of {', '.join(algos)} on {', '.join(envs)} in {', '.join(folders)}.")
    return found


def _numbered(folder: Path, algo: str, env: str = "") -> list[Path]:
    """Return the folders ``<folder>/<algo>/<env>_<number>`` with rising numbers; an empty name stands for any."""
    pattern = f"{glob.escape(algo) if algo else '*'}/{glob.escape(safe_name(env)) if env else '*'}_*"
    runs = [path for path in folder.glob(pattern) if re.fullmatch(r".*_\d+", path.name) and path.is_dir()]
    numbers = {
        path: (path.parent.name, path.name.rpartition("_")[0], int(path.name.rpartition("_")[2])) for path in runs
    }
    return sorted((path for path in runs if not env or numbers[path][1] == safe_name(env)), key=numbers.__getitem__)
