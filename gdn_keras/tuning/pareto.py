"""Which networks are worth their cost, and a picture of them."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from gdn_keras.analysis.plots import COLORS, MARKERS, figure_file


def pareto_front(
    costs: Sequence[float] | np.ndarray, accuracies: Sequence[float] | np.ndarray
) -> list[int]:
    """Indices of what nothing else beats in accuracy at the same cost or less, cheapest first.

    Example:

    >>> pareto_front([3, 1, 2, 2], [0.9, 0.5, 0.7, 0.6])
    [1, 2, 0]
    """
    order = sorted(range(len(costs)), key=lambda i: (costs[i], -accuracies[i]))
    front = []
    for i in order:
        if not front or accuracies[i] > accuracies[front[-1]]:
            front.append(i)
    return front


def draw_pareto(
    costs: Mapping[str, Sequence[float]],
    accuracies: Sequence[float],
    path: str | os.PathLike,
    marked: Mapping[str, int] | None = None,
) -> None:
    """Accuracy against each kind of cost, with the Pareto front.

    Args:
        costs: For each kind of cost, by its name on the axis, the cost of each network.
        accuracies: Accuracy of each network, between 0 and 1.
        path: File to write; its ending tells the format.
        marked: Networks to point out, by the name to give them.
    """
    percent = 100 * np.asarray(accuracies)
    marked = marked or {}
    with figure_file(path, 1, len(costs), (3.6 * len(costs), 3.2)) as (figure, axes):
        from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

        for axis, (name, values) in zip(axes[0], costs.items(), strict=True):
            values = np.asarray(values, float)
            front = pareto_front(values, percent)
            axis.plot(values, percent, "o", color="0.65", markersize=3.5, label="trials")
            axis.plot(
                values[front],
                percent[front],
                drawstyle="steps-post",
                marker="o",
                color=COLORS[0],
                markersize=4.5,
                linewidth=1.2,
                label="Pareto front",
            )
            for k, (label, i) in enumerate(marked.items(), 1):
                style = {"marker": MARKERS[k % len(MARKERS)], "color": COLORS[k % 5]}
                axis.plot(values[i], percent[i], linestyle="", markersize=8, label=label, **style)
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_xlabel(name)
            axis.grid(color="0.9", linewidth=0.6)
            axis.set_axisbelow(True)
        axes[0, 0].set_ylabel("mean accuracy over sizes (%)")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
