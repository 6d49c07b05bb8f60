"""The trials of a search as rows of a table: CSV files, Pareto picture and report."""

import math
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras_tuner
import numpy as np

from gdn_keras.analysis.plots import COLORS, MARKERS, figure_file
from gdn_keras.training.run_folder import Picture, csv_text, markdown_table, write_page, write_text
from gdn_keras.tuning.hypermodel import OBJECTIVE, GaussianDerivativeHyperModel

Row = dict[str, Any]
_COSTS = ("parameters", "multiply_adds")


def trial_rows(tuner: keras_tuner.Tuner) -> tuple[list[Row], list[Row]]:
    """The completed trials, and the draws over budget with what was trained instead."""
    completed, rejected = [], []
    model = tuner.hypermodel
    for trial in tuner.oracle.trials.values():
        hp, number = trial.hyperparameters, {"trial": int(trial.trial_id) + 1}
        drawn, trained = (model.row(draw(hp)) for draw in (model.drawn, model.candidate))
        if drawn != trained:
            rejected.append({**number, **drawn, "trained_widths": trained["widths"]})
        if trial.status == "COMPLETED":
            names = (OBJECTIVE, *model.metrics.values())
            metrics = {name: trial.metrics.get_best_value(name) for name in names}
            epochs = int(hp.values.get("tuner/epochs", model.recipe.epochs))
            completed.append({**number, **trained, "epochs": epochs, **metrics})
    return completed, rejected


def write_tables(
    model: GaussianDerivativeHyperModel,
    rows: list[Row],
    rejected: list[Row],
    tested: dict[Any, float],
    folder: Path,
) -> None:
    """CSV files and report; `tested` is the test accuracy of the best network by size."""
    if rejected:
        write_text(folder / "rejected.csv", csv_text(rejected))
    write_text(folder / "trials.csv", csv_text(rows))
    limits = ", ".join(f"{name} {limit:g}" for name, limit in model.limits.items())
    sections = [
        f"# {len(rows)} networks",
        *summarize_trials(model, rows),
        Picture(
            "pareto.png",
            "Accuracy against cost, Pareto fronts in blue.",
            lambda path: draw_pareto(rows, path),
        ),
        "The best trials and the paper's networks. All trials: [trials.csv](trials.csv).",
        _table([row for i, row in enumerate(rows) if i < 10 or _is_preset(row)]),
        "The best network within the budget, in `model.keras` and `saved_model`, on test images:",
        _table([{"size": size or "all", "accuracy": value} for size, value in tested.items()]),
        f"Budget: {limits or 'none'}. {len(model.data.train.labels)} training images.",
    ]
    write_page(folder, sections, model.reporter)


def _table(rows: Sequence[Row]) -> str:
    cells = [[f"{v:.4g}" if isinstance(v, float) else v for v in row.values()] for row in rows]
    return markdown_table(list(rows[0]), cells)


def summarize_trials(hypermodel: GaussianDerivativeHyperModel, rows: Sequence[Row]) -> list[str]:
    """The best and the median trial, and what the search found for the cost of each preset."""
    best = next(row for row in rows if hypermodel.allows(row))
    median = statistics.median(r[OBJECTIVE] for r in rows)
    error = math.sqrt(best[OBJECTIVE] * (1 - best[OBJECTIVE]) / hypermodel.validation_count)
    lines = [
        f"Best: {_text(best)}. Median: {median:.2%}. One standard error of an accuracy on "
        f"{hypermodel.validation_count} images is {100 * error:.2f} points."
    ]
    for rank, preset in enumerate(rows, 1):
        if _is_preset(preset):
            lines.append(f"The paper's {_text(preset)}, rank {rank} of {len(rows)}.")
            for name in _COSTS:
                rival = next(r for r in rows if r[name] <= preset[name])
                better = "none is better" if rival is preset else _text(rival)
                lines[-1] += f" With no more {name.replace('_', '-')}: {better}."
    return lines


def _is_preset(row: Row) -> bool:
    return isinstance(row["trial"], str)


def _text(row: Row) -> str:
    name = row["trial"] if _is_preset(row) else f"trial {row['trial']}"
    cost = f"{row['parameters']} parameters, {row['multiply_adds'] / 1e6:.1f} M multiply-adds"
    return f"{name}, {row['widths']}, r {row['scale_ratio']:g}: {row[OBJECTIVE]:.2%}, {cost}"


def pareto_front(costs: Sequence[float], accuracies: Sequence[float]) -> list[int]:
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


def draw_pareto(rows: Sequence[Row], path: str | os.PathLike) -> None:
    """Draws accuracy against parameters and multiply-adds, with the Pareto fronts.

    Args:
        rows: As from `run_search`; the paper's networks are marked.
        path: File to write; its ending determines the format.
    """
    percent = np.array([100 * r[OBJECTIVE] for r in rows])
    with figure_file(path, 1, len(_COSTS), (3.6 * len(_COSTS), 3.2)) as (figure, axes):
        from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

        for axis, name in zip(axes[0], _COSTS, strict=True):
            costs = np.array([r[name] for r in rows], float)
            front = pareto_front(costs.tolist(), percent.tolist())
            axis.plot(costs, percent, "o", color="0.65", markersize=3.5, label="trials")
            line = {"color": COLORS[0], "marker": "o", "markersize": 4.5, "linewidth": 1.2}
            line |= {"drawstyle": "steps-post", "label": "Pareto front"}
            axis.plot(costs[front], percent[front], **line)
            for k, i in enumerate((i for i, r in enumerate(rows) if _is_preset(r)), 1):
                style = {"marker": MARKERS[k], "color": COLORS[k], "markersize": 8}
                text = f"{rows[i]['trial']} ({rows[i]['widths']})"
                axis.plot(costs[i], percent[i], linestyle="", label=text, **style)
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_xlabel(name.replace("_", "-"))
            axis.grid(color="0.9", linewidth=0.6, zorder=0)
        axes[0, 0].set_ylabel("mean accuracy over sizes (%)")
        legend = axes[0, 0].get_legend_handles_labels()
        figure.legend(*legend, loc="outside upper center", ncols=len(legend[0]))
