"""Quoting of values for Hydra's override grammar."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from rlher.config import override_syntax

TRICKY = [
    "it's",
    "postgresql://u:p@h/d?x=1",
    "back\\slash",
    "end\\",
    "end\\\n",
    "a,b",
    "",
    "jürgen/лог",
    "2024_11",
    "null",
]


@pytest.mark.parametrize("value", TRICKY)
def test_quoted_values_survive_hydras_grammar(value: str) -> None:
    parsed = OverridesParser.create().parse_override(f"key={override_syntax.override_text(value)}")
    assert parsed.value() == value
