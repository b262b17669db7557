"""Settings of matplotlib for all figures."""

from typing import Any

FIGURE_SETTINGS: Any = {"text.usetex": False, "text.parse_math": False, "pdf.fonttype": 42}
"""For ``matplotlib.rc_context``. Texts of a run, such as the name of its environment, are drawn as they are: neither as
formulas nor by LaTeX. PDF files hold TrueType fonts, because some conferences refuse matplotlib's default, Type 3."""
