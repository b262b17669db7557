"""Pass the records of SB3's logger on to the tracking service of ``logger=<name>``."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import KVWriter, filter_excluded_keys

from rlher.core.console import warn
from rlher.core.errors import first_line, require_package
from rlher.core.nested import flatten
from rlher.core.rng import preserve_rng_state
from rlher.runs.run_folder import Run
from rlher.training.result import RunResult

SERVICES = {"wandb": "WandbService", "mlflow": "MlflowService"}
"""Class of each service, by name of its package, which is also the name of its module in this folder."""


def require_installed(name: str) -> None:
    """Raise UserError if the package of a service is not installed; ``"none"`` needs none."""
    if name in SERVICES:
        require_package(f"logger={name}", name)


@contextmanager
def log_to_service(name: str, run: Run, model: BaseAlgorithm, result: RunResult) -> Iterator[None]:
    """Log to a service what the model's logger records within the block, and the run's result at its end.

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
        self._service: Any = None
        self._call(lambda: self._start(run))

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Log the numbers among the values."""
        numbers = _finite_numbers(filter_excluded_keys(key_values, key_excluded, self._name))
        if self._service is not None and numbers:
            self._call(lambda: self._service.log(numbers, step))

    def finish(self, result: RunResult) -> None:
        """Log the run's result."""
        numbers = _finite_numbers({f"final/{key}": value for key, value in flatten(result.to_json())})
        if self._service is not None:
            self._call(lambda: self._service.finish(numbers, result.status.value))

    def close(self) -> None:
        """Do nothing: SB3 closes its logger before the result is known."""

    def _start(self, run: Run) -> None:
        self._service = getattr(import_module(f"rlher.training.loggers.{self._name}"), SERVICES[self._name])(run)

    def _call(self, function: Callable[[], None]) -> None:
        try:
            with preserve_rng_state():
                function()
        except Exception as error:  # of any kind: network, login, database
            self._service = None
            reason = f"{type(error).__name__}: {first_line(error)}"
            warn(f"logging to {self._name} failed ({reason}); the run continues without it.")


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
