"""Settings of matplotlib: its defaults and the user's own file, but not a ``matplotlibrc`` of the current folder.

Import this module before matplotlib. A folder of runs may come from somebody else, and a ``matplotlibrc`` in it could
name a LaTeX preamble. Texts of a run, such as the name of its environment, are drawn as they are: neither as formulas
nor by LaTeX. PDF files hold TrueType fonts, because some conferences refuse matplotlib's default, Type 3.
"""

import contextlib
from pathlib import Path

with contextlib.chdir(Path(__file__).parent):  # matplotlib looks into the current folder first
    import matplotlib

    with matplotlib._api.suppress_matplotlib_deprecation_warning():
        matplotlib.rcParams.update(matplotlib.rc_params())  # another package may have imported matplotlib before
matplotlib.rcParams.update({"text.usetex": False, "text.parse_math": False, "pdf.fonttype": 42})
