"""Plots of a study: history, parameter importances, slices, and the rank of strategies and n_sampled_goal."""

import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib
from matplotlib import pyplot as plt
from optuna.study import Study
from optuna.visualization import matplotlib as optuna_plots

from rlher.core.matplotlib_settings import SETTINGS
from rlher.core.writing import atomic_write
from rlher.tuning.search_space import SearchSpace
from rlher.tuning.trials import completed_trials

matplotlib.use("Agg")

STRATEGY = "her.goal_selection_strategy"
N_GOALS = "her.n_sampled_goal"


def write_plots(study: Study, space: SearchSpace, folder: Path) -> None:
    """Write the plots that the study has enough trials for."""
    trials = completed_trials(study, space)
    if len(trials) < 2:
        return
    plots: dict[str, Callable[[], object]] = {
        "history": lambda: optuna_plots.plot_optimization_history(study),
        "slice": lambda: _draw_slice(study),
    }
    if len({trial.value for trial in trials}) > 1 and len(trials) > 3:
        plots["importances"] = lambda: optuna_plots.plot_param_importances(study)
    if any({STRATEGY, N_GOALS} <= set(trial.params) for trial in trials):
        plots["strategies"] = lambda: optuna_plots.plot_rank(study, params=[STRATEGY, N_GOALS])
    for name, draw in plots.items():
        with plt.rc_context(SETTINGS | {"figure.dpi": 120}), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of an axis with a single value
            draw()
            with atomic_write(folder / f"{name}.png") as file:
                plt.savefig(file, bbox_inches="tight")
            plt.close("all")


def _draw_slice(study: Study) -> None:
    optuna_plots.plot_slice(study)
    for axes in plt.gcf().axes:
        axes.tick_params(axis="x", labelrotation=45)
        if axes.get_xscale() == "log":  # its own labels are formulas, and those of minor ticks overlap
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
