"""Pictures of what a network does, made for print."""

import contextlib
import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gdn_keras.datasets import TEST_SIZES, rescale_images
from gdn_keras.reporting import import_pyplot

_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "figure.constrained_layout.use": True,
}
COLORS = ("#0b5394", "#cc4125", "#6aa84f", "#8e7cc3", "#bf9000", "#45818e")
MARKERS = ("o", "s", "^", "D", "v", "P")
_COLUMNS = 12  # of receptive fields


def draw_generalization(
    curves: Mapping[str, Mapping[float, float]],
    path: str | os.PathLike,
    training_sizes: Sequence[float] = (),
    size_name: str = "size",
    value_name: str = "accuracy",
) -> None:
    """Accuracy over test size, whole and the upper part, training sizes marked.

    Args:
        curves: For each network's name, `{size: accuracy}`, as from `accuracy_by_size`.
        path: File to write; its ending tells the format.
        training_sizes: Marked by vertical lines.
        size_name: What a size is, below the axis.
        value_name: What is drawn over it, a share from 0 to 1.
    """
    best = max(accuracy for curve in curves.values() for accuracy in curve.values())
    upper = 90 if best > 0.9 else max(0, 10 * int(10 * best) - 20)
    with figure_file(path, 1, 2, (7.2, 3.0)) as (figure, axes):
        for axis, lowest in zip(axes[0], (0, upper), strict=True):
            styles = itertools.cycle(zip(MARKERS, COLORS, strict=True))
            for (name, curve), (marker, color) in zip(curves.items(), styles, strict=False):
                style = {"marker": marker, "color": color, "markersize": 3.5, "label": name}
                sizes = sorted(curve)
                axis.plot(np.log2(sizes), [100 * curve[size] for size in sizes], **style)
            _size_axis(axis, [s for c in curves.values() for s in c], size_name, training_sizes)
            axis.set_ylim(lowest, 100 + (100 - lowest) / 50)
            axis.grid(axis="y", color="0.9", linewidth=0.6)
            axis.set_axisbelow(True)
        axes[0, 0].set_ylabel(f"{value_name} (%)")
        axes[0, 1].set_title(f"from {upper} %", fontsize=9)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 3))


def draw_selection(
    sizes: Sequence[float],
    scales: Sequence[float],
    counts: Sequence[Sequence[float]],
    path: str | os.PathLike,
    training_sizes: Sequence[float] = (),
    size_name: str = "size",
) -> None:
    """Scale-selection histograms: the share of images won by each scale channel, for each size.

    `counts` holds, for each size, the images won by each of `scales`; else as above.
    """
    shares = np.asarray(counts, float).T
    shares = shares / shares.sum(axis=0)
    with figure_file(path, 1, 1, (4.6, 3.2)) as (figure, axes):
        axis = axes[0, 0]
        x, y = _edges(np.log2(sizes)), np.arange(len(scales) + 1) - 0.5
        mesh = axis.pcolormesh(x, y, shares, cmap="Greys", vmin=0, vmax=1, rasterized=True)
        axis.set_yticks(range(len(scales)), [f"{scale:.3g}" for scale in scales])
        axis.set_ylabel("selected scale channel, $\\sigma_0$")
        _size_axis(axis, sizes, size_name, training_sizes, "#cc4125")
        axis.spines[["top", "right"]].set_visible(True)
        figure.colorbar(mesh, ax=axis, label="share of the images")


def draw_confusion(
    confusion: np.ndarray,
    path: str | os.PathLike,
    class_names: Sequence[str] | None = None,
    size: float | None = None,
) -> None:
    """Which class was taken for which, from counts [true class, predicted class]."""
    confusion = np.asarray(confusion)
    names = [str(name) for name in class_names or range(len(confusion))]
    mistakes = confusion * (1 - np.eye(len(confusion), dtype=int))
    side = max(3.6, 0.3 * len(confusion))
    with figure_file(path, 1, 1, (side, side - 0.1)) as (_, axes):
        axis, style = axes[0, 0], {"ha": "center", "va": "center", "fontsize": 7}
        shown = np.ma.masked_equal(mistakes, 0)
        axis.imshow(shown, cmap="Reds", vmin=0, vmax=max(2, 1.5 * mistakes.max()))
        for true, predicted in np.argwhere(confusion):
            color = "0.45" if true == predicted else "black"
            axis.text(predicted, true, confusion[true, predicted], color=color, **style)
        steep = max(map(len, names)) > 2
        axis.set_xticks(range(len(names)), names, rotation=90 if steep else 0)
        axis.set_yticks(range(len(names)), names)
        accuracy = np.trace(confusion) / max(1, confusion.sum())
        at = "" if size is None else f"test size {size:.3g}: "
        axis.set(xlabel="predicted", ylabel="true class")
        axis.set_title(f"{at}{accuracy:.2%} right", fontsize=9)
        axis.spines[["top", "right"]].set_visible(True)


def draw_receptive_fields(layers: Mapping[str, np.ndarray], path: str | os.PathLike) -> None:
    """Receptive fields [units, size, size] of named layers; red excites, blue inhibits."""
    rows = [math.ceil(len(fields) / _COLUMNS) for fields in layers.values()]
    heights = [0.6 * count + 0.28 for count in rows]
    with figure_file(path, 0, 0, (7.2, sum(heights))) as (figure, _):
        parts = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)
        for part, (name, fields), count in zip(parts[:, 0], layers.items(), rows, strict=True):
            part.suptitle(name, x=0.005, ha="left", fontsize=9)
            axes = part.subplots(count, _COLUMNS, squeeze=False).ravel()
            for axis in axes:
                axis.set_axis_off()
            for axis, field in zip(axes, _trimmed(fields), strict=False):
                limit = np.abs(field).max() or 1.0
                axis.imshow(field, cmap="RdBu_r", vmin=-limit, vmax=limit)


def draw_sizes(
    digits: np.ndarray,
    sizes: Sequence[float] = TEST_SIZES,
    *,
    path: str | os.PathLike,
    columns: int | None = None,
) -> None:
    """Each digit at each size by the recipe of MNIST Large Scale, as in the papers.

    Args:
        digits: Images `[n, 28, 28]`, a row (or, with `columns`, a block of rows) for each.
        sizes: The sizes, from left to right.
        path: File to write; its ending tells the format.
        columns: Sizes in a row before the next row begins; all if `None`.
    """
    columns = columns or len(sizes)
    rows = math.ceil(len(sizes) / columns)
    count = rows * len(digits)
    with figure_file(path, count, columns, (columns, 1.16 * count + 0.16)) as (_, axes):
        for axis in axes.flat:
            axis.set_axis_off()
        for k, size in enumerate(sizes):
            for n, image in enumerate(rescale_images(digits, size)):
                axis = axes[n * rows + k // columns, k % columns]
                axis.imshow(image, cmap="gray", vmin=0, vmax=255)
                if n == 0 or rows > 1:
                    axis.set_title(f"{size:.3g}", fontsize=8, pad=2)


def _trimmed(fields: np.ndarray) -> np.ndarray:
    """Without the rim in which no field has more than a hundredth of its maximum."""
    strong = np.abs(fields) > 0.01 * np.abs(fields).max(axis=(1, 2), keepdims=True)
    used = np.flatnonzero(strong.any(axis=(0, 1)) | strong.any(axis=(0, 2)))
    return fields[:, used[0] : used[-1] + 1, used[0] : used[-1] + 1] if len(used) else fields


def _size_axis(
    axis: Any, sizes: Sequence[float], name: str, marked: Sequence[float], color: str = "0.45"
) -> None:
    """Ticks at the powers of two, named as sizes, and lines at training sizes."""
    for number, size in enumerate(marked):
        label = "training size" if number == 0 else None
        axis.axvline(np.log2(size), color=color, linestyle="--", linewidth=1, label=label)
    low, high = np.log2(min(sizes)), np.log2(max(sizes))
    ticks = np.arange(np.ceil(low - 1e-9), np.floor(high + 1e-9) + 1)
    axis.set_xticks(ticks, [f"{2.0**t:g}" if t >= 0 else f"1/{2 ** int(-t)}" for t in ticks])
    axis.set_xlabel(name)


def _edges(centers: np.ndarray) -> np.ndarray:
    """Edges of bins around ascending centers."""
    steps = np.diff(centers) if len(centers) > 1 else np.array([0.25])
    inner = (centers[:-1] + centers[1:]) / 2
    return np.concatenate([centers[:1] - steps[0] / 2, inner, centers[-1:] + steps[-1] / 2])


@contextlib.contextmanager
def figure_file(
    path: str | os.PathLike, rows: int, columns: int, size: tuple[float, float]
) -> Iterator[tuple[Any, np.ndarray]]:
    """A styled figure and its axes [rows, columns], saved in the end."""
    plt = import_pyplot()
    with plt.rc_context(_STYLE):
        figure = plt.figure(figsize=size)
        axes = figure.subplots(rows, columns, squeeze=False) if rows else np.empty((0, 0))
        try:
            yield figure, axes
            figure.savefig(path)
        finally:
            plt.close(figure)
