"""Draw the README's learning curves from logs/benchmark/: `python scripts/plot_benchmark.py [folder] [picture]`."""

import sys
from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot as plt

# A panel an environment; in it a line a group: name of the folder → label.
PANELS: dict[str, dict[str, str]] = {
    "BitFlipping-v0 (goal drawn at random)": {"bits15-dqn": "DQN, 15 bits", "bits30-dqn": "DQN, 30 bits"},
    "FetchReach-v4": {"reach-ddpg": "DDPG", "reach-sac": "SAC", "reach-td3": "TD3", "reach-tqc": "TQC"},
    "parking": {
        "parking-classic-sac": "SAC, no walls",
        "parking-classic-tqc": "TQC, no walls",
        "parking-sac": "SAC, walls",
        "parking-tqc": "TQC, walls",
    },
}
STYLES = ("-", "--", "-.", ":")  # readable without colour too


def main(folder: Path, picture: Path) -> None:
    """Write the picture."""
    figure, panels = plt.subplots(1, len(PANELS), figsize=(12, 3.6), sharey=True, layout="constrained")
    for panel, (title, groups) in zip(panels, PANELS.items(), strict=True):
        drawn = [name for name in groups if any((folder / name).glob("seed*/evaluations.csv"))]
        for style, name in zip(STYLES, drawn, strict=False):
            draw(panel, folder / name, groups[name], style)
        panel.set(title=title, xlabel="environment steps", xlim=(0, None), ylim=(-0.02, 1.02))
        panel.xaxis.set_major_formatter(lambda steps, _: f"{steps / 1000:g}k" if steps else "0")
        panel.grid(alpha=0.3)
        panel.legend(loc="lower right", framealpha=0.9, fontsize="small")
    panels[0].set_ylabel("evaluation success rate")
    figure.savefig(picture, dpi=150)


def draw(panel: plt.Axes, group: Path, label: str, style: str) -> None:
    """Draw each seed thinly and their mean."""
    curves = [
        pd.read_csv(path).set_index("timesteps").success_rate for path in sorted(group.glob("seed*/evaluations.csv"))
    ]
    mean = pd.concat(curves, axis=1).mean(axis=1)
    (line,) = panel.plot(mean.index, mean, style, linewidth=2, label=f"{label} ({len(curves)} seeds)")
    for curve in curves:
        panel.plot(curve.index, curve, linewidth=0.6, alpha=0.5, color=line.get_color())


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(
        Path(arguments[0] if arguments else "logs/benchmark"), Path((arguments[1:] or ["docs/learning_curves.png"])[0])
    )
