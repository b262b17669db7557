"""Plots of a study: history, parameter importances, slices, and success over strategy and n_sampled_goal."""

from collections.abc import Callable
from pathlib import Path

import rlher.core.matplotlib_settings  # noqa: F401  # before matplotlib

# isort: split
import matplotlib
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter
from optuna.study import Study
from optuna.trial import FrozenTrial
from optuna.visualization import matplotlib as optuna_plots

from rlher.core.files import atomic_write
from rlher.tuning.scoring import score_of
from rlher.tuning.significance import completed_trials

STRATEGY, N_GOALS = "her.goal_selection_strategy", "her.n_sampled_goal"


def write_plots(study: Study, folder: Path) -> list[Path]:
    """Write the plots that the study has enough trials for, and return their files."""
    trials = completed_trials(study)
    plots: dict[str, Callable[[], None]] = {}
    if len(trials) >= 2:
        plots["history"] = lambda: _draw(optuna_plots.plot_optimization_history, study)
        plots["slice"] = lambda: _draw_slice(study)
        if len({_first_value(trial) for trial in trials}) > 1 and len(trials) > 3:
            plots["importances"] = lambda: _draw(optuna_plots.plot_param_importances, study)
    if any({STRATEGY, N_GOALS} <= set(trial.params) for trial in trials):
        plots["strategies"] = lambda: _draw_heat_map(trials)
    files = []
    for name, draw in plots.items():
        with plt.rc_context({"figure.dpi": 120}):
            draw()
            files.append(folder / f"{name}.png")
            with atomic_write(files[-1]) as file:
                plt.savefig(file, bbox_inches="tight")
            plt.close("all")
    return files


def _first_value(trial: FrozenTrial) -> float:
    return trial.values[0]


def _draw(plot: Callable, study: Study) -> None:
    plot(study, target=_first_value, target_name="success") if len(study.directions) > 1 else plot(study)


def _draw_slice(study: Study) -> None:
    _draw(optuna_plots.plot_slice, study)
    figure = plt.gcf()
    figure.set_size_inches(max(2.5 * len(figure.axes), 6.4), 4.8)
    for axes in figure.axes:
        axes.tick_params(axis="x", labelrotation=45)
        axes.xaxis.set_minor_formatter(NullFormatter())  # minor labels of a logarithmic axis overlap


def _draw_heat_map(trials: list[FrozenTrial]) -> None:
    """Draw the mean success rate by strategy and n_sampled_goal, with the number of trials in brackets."""
    table = pd.DataFrame(
        [
            {"strategy": trial.params[STRATEGY], "k": trial.params[N_GOALS], "success": score_of(trial).success}
            for trial in trials
            if {STRATEGY, N_GOALS} <= set(trial.params)
        ]
    ).pivot_table(index="strategy", columns="k", values="success", aggfunc=["mean", "count"])
    means, counts = table["mean"], table["count"]
    figure, axes = plt.subplots(figsize=(1.6 + 0.8 * len(means.columns), 1.2 + 0.5 * len(means)))
    image = axes.imshow(means, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    for row, strategy in enumerate(means.index):
        for column, k in enumerate(means.columns):
            if pd.notna(mean := means.loc[strategy, k]):
                color = "black" if mean > 0.6 else "white"
                label = f"{mean:.0%}\n({counts.loc[strategy, k]:.0f})"
                axes.text(column, row, label, ha="center", va="center", color=color, fontsize="small")
    axes.set_xticks(range(len(means.columns)), [str(k) for k in means.columns])
    axes.set_yticks(range(len(means)), list(means.index))
    axes.set(xlabel="n_sampled_goal", title="mean success of completed trials (number of trials)")
    figure.colorbar(image, format=lambda share, _: f"{share:.0%}")
