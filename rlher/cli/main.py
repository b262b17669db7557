"""The `rlher` program: find the command, compose its config, run it, and explain exceptions to the user.

Nothing slow is imported before a command runs, so ``--help`` and completion are fast.
"""

import contextlib
import io
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict

from rlher import __version__
from rlher.cli import command_line, completion, rl_zoo
from rlher.cli.commands import COMMANDS
from rlher.cli.help import HELP_FLAGS, command_help, program_help
from rlher.core.console import print_note, warn
from rlher.core.errors import EXIT_FAILED, ReportedError, UserError, did_you_mean, first_line, os_error_reason
from rlher.core.reading import dump_yaml
from rlher.core.signals import EXIT_INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line.

    :param argv: the words after the program, by default the words of this process.
    :return: exit code: 0, 1 (the run failed, or a file cannot be written), 2 (the user's fault), 130 (Ctrl-C).
    """
    if argv is None:
        argv = sys.argv[1:]
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # prints any character
        threading.excepthook = _ignore_os_errors
    try:
        code = dispatch(list(argv))
        sys.stdout.flush()  # so that a full disk raises here
        return code
    except KeyboardInterrupt as interrupt:
        warn(str(interrupt) or "interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of stdout ended, as in `rlher list envs | head`
        _discard_stdout()
        return EXIT_FAILED
    except ReportedError as error:
        warn(str(error))
        return error.exit_code
    except (OSError, MemoryError, RecursionError, UnicodeEncodeError) as error:  # every other exception is a bug
        if isinstance(error, OSError) and error.filename is None:
            _discard_stdout()
        warn(_explain(error))
        return EXIT_FAILED if isinstance(error, OSError | MemoryError) else UserError.exit_code


def dispatch(argv: list[str]) -> int:
    """Find the command, run it and return its exit code."""
    if not argv or argv[0] in ("-h", "--help", "--help-all", "help"):
        print(program_help())
        return 0
    if argv[0] == "--version":
        print(f"rlher {__version__}")
        return 0
    if argv[0] in completion.COMPLETION_FLAGS:
        return completion.complete(argv)
    name, *words = rl_zoo.add_command(argv, COMMANDS)
    if name not in COMMANDS:
        if name.startswith("-") or "=" in name:
            raise UserError(f"{name} must follow a command, which is one of {', '.join(COMMANDS)}.")
        raise UserError(f"there is no command {name!r}{did_you_mean(name, COMMANDS)}; commands: {', '.join(COMMANDS)}.")
    command = COMMANDS[name]
    if not set(HELP_FLAGS).isdisjoint(words):
        print(command_help(command, "--help-all" in words))
        return 0
    if name == "train" and not words:  # the user more likely wants help than a default run
        print(command_help(command))
        return UserError.exit_code
    line = command_line.parse(name, words)
    if argv[0] not in COMMANDS:
        print_note(f"read as: {line}")
    return run_command(line)


def run_command(line: command_line.CommandLine) -> int:
    """Compose the config and run the command, or the runs of a sweep. Return the exit code.

    :raises UserError: the config is invalid.
    """
    command = line.command
    if line.is_sweep and command.sweep:
        return command.sweep(line.combinations())
    config = line.config()
    if line.prints_config:
        print(dump_yaml(asdict(config)), end="")
        return 0
    recorded = [str(line)] if command.takes_command_line else []
    return command.function(config, *recorded) or 0


def _explain(error: OSError | MemoryError | RecursionError | UnicodeEncodeError) -> str:
    """Return the message for the user."""
    if isinstance(error, OSError):
        return f"cannot read or write {error.filename or 'stdout or a file'}: {os_error_reason(error)}."
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({first_line(error)}); use smaller numbers, or close other programs."
    if isinstance(error, RecursionError):
        return "a value or a file is nested too deeply; give fewer levels."
    return f"{error.object!r} is not UTF-8, which a run's files need; rename it."


def _ignore_os_errors(arguments: threading.ExceptHookArgs) -> None:
    """Hide the traceback of TensorBoard's thread if it cannot write its file: other writers report the cause."""
    if not issubclass(arguments.exc_type, OSError):
        threading.__excepthook__(arguments)


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that flushing it at exit does not raise again."""
    with contextlib.suppress(OSError, ValueError):  # a replaced stdout may have no file descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
