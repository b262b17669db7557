"""Settings of matplotlib for all figures."""

from typing import Any

from matplotlib.mathtext import MathTextParser

SETTINGS: Any = {"text.usetex": False, "text.parse_math": False, "pdf.fonttype": 42}
"""For ``matplotlib.rc_context``. Texts of a run, such as the name of its environment, are drawn as they are: neither as
formulas nor by LaTeX. PDF files hold TrueType fonts, because some conferences refuse matplotlib's default, Type 3."""


def is_mathtext(text: str) -> bool:
    """Return whether matplotlib can draw what is between dollar signs as formulas."""
    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return False
    return True
