"""Plots of a study: history, parameter importances, slices, and the rank of strategies and n_sampled_goal."""

import warnings
from collections.abc import Callable
from pathlib import Path

from rlher.core.matplotlib_settings import SETTINGS  # before matplotlib

# isort: split
import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from optuna.study import Study
from optuna.visualization import matplotlib as optuna_plots

from rlher.core.files import atomic_write
from rlher.tuning.trials import completed_trials

STRATEGY, N_GOALS = "her.goal_selection_strategy", "her.n_sampled_goal"


def write_plots(study: Study, folder: Path) -> list[Path]:
    """Write the plots that the study has enough trials for, and return their files."""
    trials = completed_trials(study)
    if len(trials) < 2:
        return []
    plots: dict[str, Callable[[], object]] = {
        "history": lambda: optuna_plots.plot_optimization_history(study),
        "slice": lambda: _draw_slice(study),
    }
    if len({trial.value for trial in trials}) > 1 and len(trials) > 3:
        plots["importances"] = lambda: optuna_plots.plot_param_importances(study)
    if any({STRATEGY, N_GOALS} <= set(trial.params) for trial in trials):
        plots["strategies"] = lambda: optuna_plots.plot_rank(study, params=[STRATEGY, N_GOALS])
    files = []
    for name, draw in plots.items():
        with plt.rc_context(SETTINGS | {"figure.dpi": 120}), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of an axis with a single value
            draw()
            files.append(folder / f"{name}.png")
            with atomic_write(files[-1]) as file:
                plt.savefig(file, bbox_inches="tight")
            plt.close("all")
    return files


def _draw_slice(study: Study) -> None:
    optuna_plots.plot_slice(study)
    figure = plt.gcf()
    figure.set_size_inches(max(2.5 * len(figure.axes), 6.4), 4.8)
    for axes in figure.axes:
        axes.tick_params(axis="x", labelrotation=45)
        if axes.get_xscale() == "log":  # its own labels are formulas, and those of minor ticks overlap
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
