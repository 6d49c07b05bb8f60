"""Pictures of a run, made for print."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from gdn_keras.datasets.pictures import _pyplot

_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "figure.constrained_layout.use": True,
}
_COLOURS = ("#0b5394", "#cc4125", "#6aa84f", "#8e7cc3", "#bf9000", "#45818e")
_MARKERS = ("o", "s", "^", "D", "v", "P")


def draw_generalization(
    curves: Mapping[str, Mapping[float, float]],
    path: str | os.PathLike,
    training_sizes: Sequence[float] = (),
) -> None:
    """Accuracy over test size, whole and from 90 % on, training sizes marked.

    Args:
        curves: For each network's name, `{size: accuracy}`, as from `accuracy_by_size`.
        path: File to write; its ending tells the format.
        training_sizes: Marked by vertical lines.
    """
    with _figure(path, 1, 2, (7.2, 3.0)) as (figure, axes):
        for axis, lowest in zip(axes[0], (0, 90), strict=True):
            for k, (name, curve) in enumerate(curves.items()):
                sizes = sorted(curve)
                accuracies = [100 * curve[size] for size in sizes]
                axis.plot(
                    np.log2(sizes),
                    accuracies,
                    marker=_MARKERS[k % len(_MARKERS)],
                    color=_COLOURS[k % len(_COLOURS)],
                    markersize=3.5,
                    linewidth=1.4,
                    label=name,
                )
            for number, size in enumerate(training_sizes):
                label = "training size" if number == 0 else None
                axis.axvline(np.log2(size), color="0.45", linestyle="--", linewidth=1, label=label)
            axis.set_ylim(lowest, 100 + (100 - lowest) / 50)
            axis.grid(axis="y", color="0.9", linewidth=0.6)
            axis.set_axisbelow(True)
            _size_axis(axis, sorted({size for curve in curves.values() for size in curve}))
        axes[0, 0].set_ylabel("accuracy (%)")
        axes[0, 1].set_title("from 90 %", fontsize=9)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 3))


def draw_selection(
    sizes: Sequence[float],
    scales: Sequence[float],
    counts: Sequence[Sequence[float]],
    path: str | os.PathLike,
    training_sizes: Sequence[float] = (),
) -> None:
    """Scale-selection histograms: the share of images won by each scale channel, for each size.

    Args:
        sizes: Test sizes, from left to right.
        scales: sigma_0 of the channels, from below.
        counts: For each size, images won by each channel.
        path: File to write.
        training_sizes: Marked by vertical lines.
    """
    shares = np.asarray(counts, float).T
    shares = shares / shares.sum(axis=0)
    with _figure(path, 1, 1, (4.6, 3.2)) as (figure, axes):
        axis = axes[0, 0]
        x, y = _edges(np.log2(sizes)), np.arange(len(scales) + 1) - 0.5
        mesh = axis.pcolormesh(x, y, shares, cmap="Greys", vmin=0, vmax=1, rasterized=True)
        for size in training_sizes:
            axis.axvline(np.log2(size), color="#cc4125", linestyle="--", linewidth=1)
        axis.set_yticks(range(len(scales)), [f"{scale:.3g}" for scale in scales])
        axis.set_ylabel("selected scale channel, $\\sigma_0$")
        _size_axis(axis, sizes)
        axis.spines[["top", "right"]].set_visible(True)
        figure.colorbar(mesh, ax=axis, label="share of the images")


def draw_confusion(confusion: np.ndarray, size: float, path: str | os.PathLike) -> None:
    """Which class was taken for which, at one size; the mistakes shaded."""
    confusion = np.asarray(confusion)
    mistakes = confusion * (1 - np.eye(len(confusion), dtype=int))
    with _figure(path, 1, 1, (3.6, 3.5)) as (_, axes):
        axis = axes[0, 0]
        shown = np.ma.masked_equal(mistakes, 0)
        axis.imshow(shown, cmap="Reds", vmin=0, vmax=max(2, 1.5 * mistakes.max()))
        for true, predicted in np.ndindex(*confusion.shape):
            if confusion[true, predicted]:
                colour = "0.45" if true == predicted else "black"
                text = str(confusion[true, predicted])
                axis.text(predicted, true, text, ha="center", va="center", fontsize=7, color=colour)
        axis.set_xticks(range(len(confusion)))
        axis.set_yticks(range(len(confusion)))
        axis.set_xlabel("predicted")
        axis.set_ylabel("true class")
        accuracy = np.trace(confusion) / max(1, confusion.sum())
        axis.set_title(f"test size {size:.3g}: {accuracy:.2%} right", fontsize=9)
        axis.spines[["top", "right"]].set_visible(True)


def draw_receptive_fields(layers: Mapping[str, np.ndarray], path: str | os.PathLike) -> None:
    """Receptive fields, a block of rows for each layer; red excites, blue inhibits.

    Args:
        layers: For each layer's name, templates [units, size, size].
        path: File to write.
    """
    columns = 12
    rows = [-(-len(fields) // columns) for fields in layers.values()]
    titles = 0.28 * len(rows)
    plt = _pyplot()
    with plt.rc_context({**_STYLE, "figure.constrained_layout.use": False}):
        height = 0.6 * sum(rows) + titles
        figure = plt.figure(figsize=(7.2, height))
        top = 0.0
        for (name, fields), count in zip(layers.items(), rows, strict=True):
            figure.text(0.005, 1 - (top + 0.19) / height, name, fontsize=9)
            top += 0.28
            for k, field in enumerate(_trimmed(fields)):
                row, column = divmod(k, columns)
                bottom = 1 - (top + 0.6 * (row + 1) - 0.02) / height
                place = [0.005 + column / columns * 0.99, bottom, 0.0785, 0.565 / height]
                axis = figure.add_axes(place)
                limit = np.abs(field).max() or 1.0
                axis.imshow(field, cmap="RdBu_r", vmin=-limit, vmax=limit)
                axis.set_axis_off()
            top += 0.6 * count
        figure.savefig(path)
        plt.close(figure)


def _trimmed(fields: np.ndarray) -> np.ndarray:
    """Without the rim in which no field has more than a hundredth of its maximum."""
    strong = np.abs(fields) > 0.01 * np.abs(fields).max(axis=(1, 2), keepdims=True)
    used = np.flatnonzero(strong.any(axis=(0, 1)) | strong.any(axis=(0, 2)))
    return fields[:, used[0] : used[-1] + 1, used[0] : used[-1] + 1] if len(used) else fields


def _size_axis(axis, sizes: Sequence[float]) -> None:
    """Ticks at the powers of two, named as sizes."""
    low, high = np.log2(min(sizes)), np.log2(max(sizes))
    ticks = np.arange(np.ceil(low - 1e-9), np.floor(high + 1e-9) + 1)
    axis.set_xticks(ticks, [f"{2.0**t:g}" if t >= 0 else f"1/{2 ** int(-t)}" for t in ticks])
    axis.set_xlabel("test size")


def _edges(centres: np.ndarray) -> np.ndarray:
    """Edges of bins around ascending centres."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.125, centres[0] + 0.125])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


class _figure:
    """`with _figure(path, rows, columns, size) as (figure, axes)`: styled, then saved."""

    def __init__(self, path, rows, columns, size):
        self._path, self._shape, self._size = path, (rows, columns), size

    def __enter__(self):
        self._plt = _pyplot()
        self._context = self._plt.rc_context(_STYLE)
        self._context.__enter__()
        self._drawn, axes = self._plt.subplots(*self._shape, figsize=self._size, squeeze=False)
        return self._drawn, axes

    def __exit__(self, kind, *rest):
        if kind is None:
            self._drawn.savefig(self._path)
        self._plt.close(self._drawn)
        return self._context.__exit__(kind, *rest)
