"""Plots of the results."""

from pathlib import Path

import matplotlib

from contest.report import GROWTH, curve, milliseconds
from contest.tasks import CONTESTANTS, MODES

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLORS = {"matched": "#0072b2", "dense": "#d55e00"}
MODE_COLORS = {"forward": "#56b4e9", "training": "#e69f00"}
STYLES = {"forward": "o-", "training": "s--"}


def draw(results: dict, folder: Path) -> list[Path]:
    """Draw all plots; returns the files written."""
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figures = {"growth.png": _draw_growth(results), "times.png": _draw_times(results)}
    files = []
    for name, figure in figures.items():
        files.append(folder / name)
        figure.savefig(files[-1], dpi=200)
        plt.close(figure)
    return files


def _draw_growth(results: dict):
    """Time an image against image side, scale channels and batch."""
    figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
    for axes, (name, (title, _, _)) in zip(panels, GROWTH.items(), strict=True):
        for sampling, color in COLORS.items():
            for mode, style in STYLES.items():
                times = curve(results, name, sampling, mode)
                milliseconds = [1e3 * times[value] for value in sorted(times)]
                label = f"{sampling}, {mode}"
                axes.plot(sorted(times), milliseconds, style, color=color, ms=3.5, label=label)
        ticks = sorted({row[GROWTH[name][1]] for row in results[f"{name} forward"]})
        axes.set(xscale="log", yscale="log", xlabel=title.lower())
        axes.set_xticks(ticks, map(str, ticks))
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("time per image, ms")
    lines, labels = panels[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=4, frameon=False)
    return figure


def _draw_times(results: dict):
    """Time an image of each contestant, forward and in training."""
    net = results["settings"]["nets"][0]
    names = results["settings"]["contestants"]
    figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
    for k, mode in enumerate(MODES):
        rows = {row["contestant"]: 1e3 * row["seconds"] for row in results[f"{net} {mode}"]}
        places = [i + 0.4 * (k - 0.5) for i in range(len(names))]
        values = [rows[name] for name in names]
        bars = axes.barh(places, values, 0.38, label=mode, color=MODE_COLORS[mode])
        axes.bar_label(bars, fmt=milliseconds, padding=2, fontsize=8)
    axes.set_yticks(range(len(names)), [CONTESTANTS[name][1] for name in names])
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel=f"time per image, ms, network “{net}”")
    axes.margins(x=0.12)
    axes.legend(frameon=False, loc="lower right")
    return figure
