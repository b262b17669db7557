"""Which parameters of a test the fast tests run."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_except(fast: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """Return the values of one argument; those that are not in ``fast`` run with the slow tests.

    For tables of cases that all go through the same code, of which a few find most mistakes.
    """
    cases, fast = [*cases], [*fast]
    assert all(case in cases for case in fast), "a case has another name now"
    return [case if case in fast else pytest.param(case, marks=pytest.mark.slow) for case in cases]
