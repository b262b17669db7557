"""Pass the records of SB3's logger on to a tracking service."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import KVWriter, filter_excluded_keys

from rlher.core.console import warn
from rlher.core.errors import first_line
from rlher.core.nested import flatten
from rlher.core.rng import preserve_rng_state
from rlher.runs.run_folder import Run
from rlher.training import messages
from rlher.training.loggers.registry import SERVICES, Service, load_service
from rlher.training.result import RunResult


@contextmanager
def log_to_service(name: str, run: Run, model: BaseAlgorithm, result: RunResult) -> Iterator[None]:
    """Log to a service what the model's logger records within the block, and the run's result at its end.

    :param name: one of :data:`SERVICES`, or ``"none"``.
    :param result: filled in by the time the block ends.
    """
    if name not in SERVICES:
        yield
        return
    writer = ServiceWriter(name, run)
    model.logger.output_formats.append(writer)
    try:
        yield
    finally:
        writer.finish(result)


class ServiceWriter(KVWriter):
    """An output format of SB3's logger that never affects the run.

    The first exception of the service is printed, and nothing is logged to it any more. Random numbers that it draws
    are not taken from the run's generators.
    """

    def __init__(self, name: str, run: Run) -> None:
        self._name = name
        self._service: Service | None = None
        self._call(lambda: self._start(run))

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Log the numbers among the values."""
        numbers = _finite_numbers(filter_excluded_keys(key_values, key_excluded, self._name))
        service = self._service
        if service is not None and numbers:
            self._call(lambda: service.log(numbers, step))

    def finish(self, result: RunResult) -> None:
        """Log the run's result."""
        numbers = _finite_numbers({f"final/{key}": value for key, value in flatten(result.to_json())})
        service = self._service
        if service is not None:
            self._call(lambda: service.finish(numbers, result.status.value))

    def close(self) -> None:
        """Do nothing: SB3 closes its logger before the result is known."""

    def _start(self, run: Run) -> None:
        self._service = load_service(self._name)(run)

    def _call(self, function: Callable[[], None]) -> None:
        try:
            with preserve_rng_state():
                function()
        except Exception as error:  # of any kind: network, login, database
            self._service = None
            warn(messages.service_failed(self._name, f"{type(error).__name__}: {first_line(error)}"))


def _finite_numbers(values: dict[str, Any]) -> dict[str, float]:
    """Return the values that are finite numbers, as floats."""
    numbers = {}
    for key, value in values.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number) and not isinstance(value, str | bool):
            numbers[key] = number
    return numbers
