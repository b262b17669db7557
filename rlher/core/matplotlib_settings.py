"""Settings of matplotlib: its defaults and the user's own file, but not a ``matplotlibrc`` of the current folder.

Import this module before matplotlib. A folder of runs may come from somebody else, and a ``matplotlibrc`` in it could
name a LaTeX preamble.
"""

import contextlib
import sys
from pathlib import Path
from typing import Any

_was_read = "matplotlib" in sys.modules and Path("matplotlibrc").exists()  # by another package
with contextlib.chdir(Path(__file__).parent):  # matplotlib looks into the current folder first
    import matplotlib

    if _was_read:
        with matplotlib._api.suppress_matplotlib_deprecation_warning():
            matplotlib.rcParams.update(matplotlib.rc_params())

SETTINGS: Any = {"text.usetex": False, "text.parse_math": False, "pdf.fonttype": 42}
"""For ``matplotlib.rc_context``. Texts of a run, such as the name of its environment, are drawn as they are: neither as
formulas nor by LaTeX. PDF files hold TrueType fonts, because some conferences refuse matplotlib's default, Type 3."""


def is_mathtext(text: str) -> bool:
    """Return whether matplotlib can draw what is between dollar signs as formulas."""
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return False
    return True
