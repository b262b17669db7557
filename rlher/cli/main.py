"""The `rlher` command: finds the verb, hands the rest to Hydra, and tells every failure in a sentence.

Each verb is a Hydra application of its own with the primary config ``conf/<verb>.yaml``, so multirun, launchers,
``--cfg`` and completion all work. Nothing heavy is imported before a verb runs: ``--help`` and completion stay instant.
"""

import atexit
import contextlib
import gc
import importlib
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlher import COMMAND, __version__
from rlher.core.console import command_line, redact, warn
from rlher.core.errors import EnvironmentFault, UserError, did_you_mean, first_line, os_error_reason

VERBS: dict[str, str] = {
    "train": "train an agent and keep everything in a run folder",
    "optimize": "search for a better recipe, and say how sure it is",
    "evaluate": "measure a run's success rate",
    "enjoy": "watch a run's agent, in a window or as a video",
    "export": "write a run's agent as a plain Stable-Baselines3 model, with a script and a model card",
    "plot": "draw learning curves of the runs there are",
    "compare": "tabulate runs: success, steps to get there, who is better",
    "report": "write all of it as one page that can be sent: curves, tables, clips, versions",
    "check": "hold an environment against the goal-env contract",
    "list": "list algos, envs or strategies",
}
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
SHOWING = {"--cfg", "-c", "--info", "-i"}
"""Flags of Hydra's that print the config."""
EXAMPLES = (
    "rlher train algo=tqc env=parking-v0",
    "rlher train algo=ddpg env=FetchReach-v4 --seed 1 her.n_sampled_goal=8",
    "rlher train -m algo=sac env=FetchReach-v4 seed=0,1,2",
    "rlher train --resume logs/tqc/parking-v0_1",
    "rlher optimize algo=tqc env=parking-v0 --n-trials 100 --workers 2",
    "rlher evaluate logs/tqc/parking-v0_1 --episodes 200",
    "rlher enjoy --grid 3x2 --video film.mp4",
    "rlher export logs/tqc/parking-v0_1 --output parking",
    "rlher plot --by algo,her.n_sampled_goal",
    "rlher compare logs/sac/parking-v0_* logs/tqc/parking-v0_*",
    "rlher report logs/sac logs/tqc --output report.html",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0, 1 (the environment's fault), 2 (the user's), 130 (Ctrl-C)."""
    if argv is None:  # a process of its own, which would take most of a second to look through all it leaves behind
        atexit.register(gc.freeze)
        argv = sys.argv[1:]
    try:
        code = _dispatch(list(argv))
        sys.stdout.flush()  # here a pipe that is closed, or a disk that is full, can still be told
        return code
    except KeyboardInterrupt as stop:
        if not stop.args:  # else the verb has told it
            print("rlher: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `rlher list envs | head`
        _drop_output()
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:
            _drop_output()
        sentence = explain(error)
        if sentence is None or "HYDRA_FULL_ERROR" in os.environ:
            raise
        warn(sentence)
        return getattr(error, "exit_code", 2)


def _drop_output() -> None:
    """Let what stdout still holds, and could not write, end where it does no harm."""
    with contextlib.suppress(OSError, ValueError):  # a test's stdout has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(argv: list[str]) -> int:
    if argv and argv[0] in ("-sc", "--shell-completion"):
        return _complete(argv)
    if not argv or argv[0] in ("-h", "--help", "help"):
        _print_help()
        return 0
    if argv[0] == "--version":
        print(f"rlher {__version__}")
        return 0
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        raise UserError(f"there is no verb {verb!r}{did_you_mean(verb, VERBS)}. Verbs: {', '.join(VERBS)}.")
    if verb == "list":
        return importlib.import_module("rlher.cli.commands.list").main(rest)
    from rlher.cli import help, overrides

    if "-h" in rest or "--help" in rest:
        print(help.help_text(verb, VERBS[verb], rest))
        return 0
    if verb == "train" and overrides.resumes(rest):  # the run's own config, nothing for Hydra to compose
        return importlib.import_module("rlher.cli.resume_overrides").main(rest)
    return _run_hydra(verb, overrides.to_hydra(verb, rest), argv)


def _run_hydra(verb: str, argv: list[str], typed: list[str]) -> int:
    """Run ``rlher.<verb>.<verb>(config)`` under Hydra, once or, with ``-m``, once per job."""
    import hydra
    import yaml
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.utils import env_override
    from omegaconf import DictConfig

    from rlher.cli import overrides
    from rlher.config import store
    from rlher.config.key import to_object

    def task(cfg: DictConfig) -> None:
        composed.append(True)
        if "recipe" in cfg and cfg.recipe is None:
            cfg.recipe = overrides.recipe_in_force(HydraConfig.get().runtime)
        try:
            run = getattr(importlib.import_module(f"rlher.cli.commands.{verb}"), verb)
            code = run(to_object(cfg, store.VERB_SCHEMAS[verb]))
            codes.append(code)
            if code == INTERRUPTED:
                raise KeyboardInterrupt("told")  # the rest of a sweep is not wanted either
            if code and os.getpid() != dispatcher:
                raise EnvironmentFault("a run of this sweep failed; see above.")
        except (UserError, EnvironmentFault) as error:
            if os.getpid() != dispatcher:  # a launcher's worker process, whose list of codes nobody reads
                raise
            # Told here and not raised, so that of several jobs the others still run.
            warn(str(error))
            codes.append(error.exit_code)
        except Exception as error:
            if os.getpid() != dispatcher:
                raise
            bugs.append(error)  # kept from Hydra, which would print all that was typed, passwords included

    codes: list[int] = []
    bugs: list[Exception] = []
    composed: list[bool] = []
    dispatcher = os.getpid()
    store.register()
    program = sys.argv
    # Hydra would print an error its own way and exit with 1; with the first set it raises, and the sentence is ours.
    # The second is what a run folder keeps: sys.argv is Hydra's by then, and a launcher's worker has another one.
    with env_override({"HYDRA_FULL_ERROR": "1", COMMAND: command_line(["rlher", *typed])}):
        try:
            shown = not SHOWING.isdisjoint(argv)
            sys.argv = [program[0], *(redact(word) if shown else word for word in argv)]
            with _redacted_output() if shown else contextlib.nullcontext():
                hydra.main(version_base="1.3", config_path="pkg://rlher.conf", config_name=verb)(task)()
        except (yaml.YAMLError, TypeError, ValueError, AttributeError, AssertionError, RecursionError) as error:
            if composed:
                raise
            # of Hydra and OmegaConf, who have exceptions of their own for most of what one can type, less of files
            raise UserError(f"this makes no config: {' '.join(str(error).split()).rstrip('.')}.") from error
        finally:
            sys.argv = program
    if bugs:
        raise bugs[0]
    return max(codes, default=0)


@contextlib.contextmanager
def _redacted_output() -> Iterator[None]:
    """Take passwords out of what is printed on stdout; one may come from a file of one's own, or from ${oc.env:...}."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        print("\n".join(redact(line) for line in printed.getvalue().split("\n")), end="")


def _complete(argv: list[str]) -> int:
    """Answer the shell's completion query; Hydra completes what follows the verb, we complete the verb."""
    line = os.environ.get("COMP_LINE", "")
    program, _, words = line.partition(" ")
    verb, space, rest = words.lstrip().partition(" ")
    if "query" in " ".join(argv) and not space:
        print(" ".join(name for name in VERBS if name.startswith(verb)))
        return 0
    last = rest.rpartition(" ")[2]
    if "query" in " ".join(argv) and (known := _complete_word(verb, last)) is not None:
        print(" ".join(known))
        return 0
    os.environ["COMP_LINE"] = f"{program} {rest}"
    return _run_hydra(verb if verb in VERBS and verb != "list" else "train", argv, argv)


def _complete_word(verb: str, word: str) -> list[str] | None:
    """Complete a flag, or a run folder where the verb takes one; None: it is Hydra's to complete."""
    from rlher.cli import overrides

    if word.startswith("-"):
        return [flag for flag in overrides.flags(verb) if flag.startswith(word)] if verb in VERBS else []
    if word and "=" not in word and verb in VERBS and verb != "list" and overrides.positional(verb):
        folders = [str(path) for path in Path().glob(word + "*") if path.is_dir()] if not word.startswith("/") else []
        return [folder + "/" for folder in sorted(folders)] or None
    return None


def _print_help() -> None:
    print(f"rlher {__version__}: goal-reaching agents with Hindsight Experience Replay")
    print("\nusage: rlher <verb> [flags] [key=value ...]\n")
    for verb, text in VERBS.items():
        print(f"  {verb:<10} {text}")
    print("\nexamples:\n" + "\n".join(f"  {example}" for example in EXAMPLES))
    print('\n`rlher <verb> --help` lists a verb\'s flags and keys. Tab completion: eval "$(rlher -sc install=bash)"')


def explain(error: Exception) -> str | None:
    """Say in a sentence what a person did wrong, or return None where the error is a bug of ours."""
    from hydra.errors import HydraException, MissingConfigException, OverrideParseException
    from omegaconf.errors import OmegaConfBaseException

    if isinstance(error, UserError | EnvironmentFault):
        return str(error)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        options = error.options or []
        return (
            f"there is no {group or 'config'} {name!r}{did_you_mean(name, options)}. There are: {', '.join(options)}."
        )
    if isinstance(error, OSError):
        return f"cannot read or write {error.filename or 'the output'}: {os_error_reason(error)}."
    if not isinstance(error, HydraException | OmegaConfBaseException):
        return None
    if isinstance(error, OverrideParseException):  # it says which sign it stumbled over, which may be of a password
        key, _, _ = error.override.partition("=")
        why = "a bracket or quote stays open, or a value with blanks, brackets or = has no quotes"
        return f"{key}=... cannot be read: {why}, as in \"{key}='...'\"."
    first = first_line(error)
    if first.startswith("Could not override"):
        from rlher.cli.overrides import closest_key

        key = first.split("'")[1]
        return f"there is no key {key!r}{closest_key(key)}."
    if first.startswith("Ambiguous value"):
        word = first.split("'")[1]
        name, _, values = word.partition("=")
        return f"{word} is several values: for one run each add -m, for a list write {name}=[{values}]."
    if first.startswith("In 'preset/"):
        return f"this preset does not fit the rest: {str(error).splitlines()[1]}."
    under = first_line(error.__cause__) if error.__cause__ else ""
    if first.startswith("Error merging override "):
        return _wrong_value(first.removeprefix("Error merging override ").partition(" ")[0].rstrip(":"), under)
    return f"{first}{': ' + under if under and under != first else ''}."


def _wrong_value(word: str, under: str) -> str:
    """Say what kind of value a key wants, where Hydra says that a str is not a ListConfig."""
    key, _, value = word.lstrip("+").partition("=")
    if "is not a ListConfig" in under:
        return f"{key} is a list: {key}=[{value}]."
    wanted = re.search(r"could not be converted to (\w+)|is not a valid (bool)", under)
    kinds = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}
    if wanted and wanted[wanted.lastindex or 0] in kinds:
        return f"{key}={value}: {key} is {kinds[wanted[wanted.lastindex or 0]]}."
    return f"{word}: {under}."


if __name__ == "__main__":
    sys.exit(main())
