"""A study in pictures: history, importances, slice, and success over strategies and n_sampled_goal."""

from collections.abc import Callable
from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter
from optuna.study import Study
from optuna.trial import FrozenTrial
from optuna.visualization import matplotlib as draw

from rlher.core.files import atomic_write
from rlher.tuning.significance import complete, score_of

STRATEGY, GOALS = "her.goal_selection_strategy", "her.n_sampled_goal"


def plots(study: Study, folder: Path) -> list[Path]:
    """Write the pictures that the study's trials suffice for, and list them."""
    trials = complete(study)
    found: dict[str, Callable[[], None]] = {}
    if len(trials) >= 2:
        found["history"] = lambda: _optuna(draw.plot_optimization_history, study)
        found["slice"] = lambda: _slice(study)
        if len({_target(trial) for trial in trials}) > 1 and len(trials) > 3:
            found["importances"] = lambda: _optuna(draw.plot_param_importances, study)
    if any({STRATEGY, GOALS} <= set(trial.params) for trial in trials):
        found["strategies"] = lambda: _heat_map(trials)
    written = []
    for name, paint in found.items():
        with plt.rc_context({"figure.dpi": 120}):
            paint()
            written.append(folder / f"{name}.png")
            with atomic_write(written[-1]) as file:
                plt.savefig(file, bbox_inches="tight")
            plt.close("all")
    return written


def _target(trial: FrozenTrial) -> float:
    return trial.values[0]


def _optuna(paint: Callable, study: Study) -> None:
    paint(study, target=_target, target_name="success") if len(study.directions) > 1 else paint(study)


def _slice(study: Study) -> None:
    _optuna(draw.plot_slice, study)
    figure = plt.gcf()
    figure.set_size_inches(max(2.5 * len(figure.axes), 6.4), 4.8)
    for axes in figure.axes:
        axes.tick_params(axis="x", labelrotation=45)
        axes.xaxis.set_minor_formatter(NullFormatter())  # of a logarithmic axis: they would lie on each other


def _heat_map(trials: list[FrozenTrial]) -> None:
    """Draw the mean success rate of each strategy and number of goals, and how many trials it is the mean of."""
    table = pd.DataFrame(
        [
            {"strategy": trial.params[STRATEGY], "k": trial.params[GOALS], "success": score_of(trial).success}
            for trial in trials
            if {STRATEGY, GOALS} <= set(trial.params)
        ]
    ).pivot_table(index="strategy", columns="k", values="success", aggfunc=["mean", "count"])
    means, counts = table["mean"], table["count"]
    figure, axes = plt.subplots(figsize=(1.6 + 0.8 * len(means.columns), 1.2 + 0.5 * len(means)))
    image = axes.imshow(means, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    for row, strategy in enumerate(means.index):
        for column, k in enumerate(means.columns):
            if pd.notna(mean := means.loc[strategy, k]):
                colour = "black" if mean > 0.6 else "white"
                label = f"{mean:.0%}\n({counts.loc[strategy, k]:.0f})"
                axes.text(column, row, label, ha="center", va="center", color=colour, fontsize="small")
    axes.set_xticks(range(len(means.columns)), [str(k) for k in means.columns])
    axes.set_yticks(range(len(means)), list(means.index))
    axes.set(xlabel="n_sampled_goal", title="mean success of complete trials (their number)")
    figure.colorbar(image, format=lambda share, _: f"{share:.0%}")
