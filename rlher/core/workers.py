"""Worker processes: start them, call methods in them, receive results and exceptions, detect lost workers, close them.

A worker holds one object, its *service*, and calls methods of the service on request::

    class Adder:
        def add(self, one, two):
            return one + two

    worker = Worker(Adder)                # `Adder()` runs in the new process
    worker.receive(BUILD_TIMEOUT)         # None; raises what `Adder()` raised
    worker.send("add", 1, 2)
    worker.receive(10.0)                  # 3; raises what `add` raised, or WorkerLost
    close_workers([worker])               # calls `close()` of the service, if it has one

A lost worker stays lost. To replace it, call :meth:`Worker.kill` and build a new one; :class:`RestartLimit` counts.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from types import ModuleType
from typing import Any

from rlher.core import fork_server
from rlher.core.console import warn
from rlher.core.errors import RunError, UserError, first_line
from rlher.core.signals import leave_signals_to_main_process

BUILD_TIMEOUT = 300.0
"""Time limit for a new worker to import and build its service."""

CLOSE_TIMEOUT = 5.0
"""Time limit for workers to end after they are asked to; then they are killed."""

REPORT_SECONDS = 0.1
"""Shortest time between two reports of progress, in seconds."""


class WorkerLost(RunError):
    """A worker process died or hangs."""


class Worker:
    """A process that holds a service and calls its methods, see the example in :mod:`rlher.core.workers`.

    :param build: picklable function that returns the service. The new process calls it.
    :param name: name of the process. The message of :class:`WorkerLost` begins with this name.
    """

    def __init__(self, build: Callable[[], Any], name: str = "its process") -> None:
        self._name = name
        fork_server.start()
        context: Any = multiprocessing.get_context("forkserver")  # a fork of a process that uses torch may hang
        self.pipe, other = context.Pipe()
        # A daemon could not start child processes, and a simulator may need some.
        self.process = context.Process(target=_serve, args=(other, build), daemon=False)
        with _STARTING, _without_main_module():
            self.process.start()
        other.close()
        # Without this finalizer, a program that ends would wait for its workers.
        self._close_at_exit = Finalize(self, _end, (self.pipe, self.process, CLOSE_TIMEOUT), exitpriority=0)

    def send(self, method: str, *arguments: Any) -> None:
        """Ask the worker to call a method of the service. :meth:`receive` returns the result.

        :raises WorkerLost: the process has ended.
        """
        try:
            self.pipe.send((method, arguments))
        except OSError as error:
            raise WorkerLost(self._exit_reason()) from error

    def receive(self, timeout: float | None, extra_timeout: float = 0) -> Any:
        """Return the next result, or raise the exception of the call, with the worker's traceback as a note.

        :param timeout: seconds to wait since the last :func:`report_progress` of the service, or None for no limit.
        :param extra_timeout: added to the time limit of the first report or result.
        :raises WorkerLost: the process has ended, or did not answer in time.
        """
        limit = None if timeout is None else timeout + extra_timeout
        while True:
            try:
                if not self.pipe.poll(limit):
                    raise WorkerLost(f"{self._name} hung (no answer in {limit:g} s)")
                tag, value = self.pipe.recv()
            except (EOFError, OSError) as error:
                raise WorkerLost(self._exit_reason()) from error
            if tag == "raised":
                raise value
            if tag == "returned":
                return value
            limit = timeout

    def disconnect(self) -> None:
        """Let the process end after its current call or at its next progress report. A waiting `receive` raises."""
        _disconnect(self.pipe)

    def kill(self) -> None:
        """End the process at once."""
        self._close_at_exit.cancel()
        _end(self.pipe, self.process, 0)

    def _exit_reason(self) -> str:
        self.process.join(timeout=1)
        code = self.process.exitcode
        if code is None:
            return f"{self._name} stopped answering"
        cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return f"{self._name} died ({cause})"


class RestartLimit:
    """Counts how often processes of an environment were replaced since its last finished episode.

    :param limit: largest number of replacements without a finished episode in between.
    :ivar total: number of all replacements.
    """

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._limit = limit
        self._restarts = 0

    def episode_finished(self) -> None:
        """Count from 0 again."""
        self._restarts = 0

    def count_restart(self, lost: WorkerLost, where: str = "") -> None:
        """Count a replacement, and print that a new process replaces the lost one.

        :param where: text for the message, such as " in the episode of seed 7".
        :raises RunError: the limit is reached.
        """
        loss = f"{lost}{where}"
        if self._restarts == self._limit:
            raise RunError(f"{loss}, after env.max_restarts={self._limit} restarts without a finished episode.")
        self._restarts += 1
        self.total += 1
        warn(f"{loss}; a new process replaces it (see env.step_timeout).")


_STARTING = threading.Lock()
"""Lock that lets one thread at a time start a worker, because :func:`_without_main_module` changes this process."""


@contextlib.contextmanager
def _without_main_module() -> Iterator[None]:
    """Keep a new process from importing the program's script. A script without a main guard would run again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def close_workers(workers: Sequence[Worker]) -> None:
    """End workers after their current calls, and kill those that need more than :data:`CLOSE_TIMEOUT`."""
    deadline = time.monotonic() + CLOSE_TIMEOUT
    try:
        for worker in workers:
            worker.disconnect()
        for worker in workers:
            worker.process.join(max(deadline - time.monotonic(), 0))
    finally:  # after Ctrl-C, workers would outlive this process
        for worker in workers:
            worker.kill()


def report_progress() -> None:
    """Tell the process that waits for this worker that the current call makes progress.

    Does nothing outside of a worker, or if the last report was sent less than :data:`REPORT_SECONDS` ago.
    """
    global _last_report
    now = time.monotonic()
    if _pipe is not None and now - _last_report > REPORT_SECONDS:
        _last_report = now
        _pipe.send(("reported", None))


# ------------------------------------------------------------------------------------ in the worker process

_pipe: "Connection | None" = None
_last_report = 0.0


def _serve(pipe: Connection, build: Callable[[], Any]) -> None:
    """Build the service, then answer requests until the other end of the pipe is closed."""
    global _pipe
    _pipe = pipe
    leave_signals_to_main_process()
    service: Any = None
    answer: tuple[str, Any] = "returned", None
    try:
        service = build()
    except BaseException as error:
        answer = "raised", _portable(error)
    with contextlib.suppress(EOFError, OSError):
        while True:
            try:
                pipe.send(answer)
            except OSError:
                raise
            except Exception as error:  # pickling raises many kinds
                problem = RunError(f"it returned what cannot be sent to another process: {first_line(error)}")
                pipe.send(("raised", _portable(problem)))
            method, arguments = pipe.recv()
            try:
                answer = "returned", getattr(service, method)(*arguments)
            except BaseException as error:
                answer = "raised", _portable(error)
    if hasattr(service, "close"):
        service.close()


def _portable(error: BaseException) -> BaseException:
    """Return an exception that can be pickled, if possible the given exception, with its traceback as a note."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error_class = UserError if isinstance(error, UserError) else RuntimeError
        portable = error_class(str(error))
        portable.__notes__ = error.__notes__
        return portable
    return error


# ------------------------------------------------------------------------------------- in the main process


def _disconnect(pipe: Connection) -> None:
    """Close a pipe for both ends. Unlike `close`, this wakes a thread that waits for the pipe."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(pipe.fileno())) as both_ways:
        both_ways.shutdown(socket.SHUT_RDWR)


def _end(pipe: Connection, process: Any, timeout: float) -> None:
    """Disconnect the pipe, wait for the process to end, and kill it after ``timeout`` seconds."""
    _disconnect(pipe)
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        process.join(CLOSE_TIMEOUT)  # limited: a process that waits for a lost disk cannot be killed
    pipe.close()
