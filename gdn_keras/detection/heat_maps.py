"""What a detector sees: the heat of each scale channel, over place."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from gdn_keras.scale_space import PointGrid

if TYPE_CHECKING:
    from PIL.Image import Image

_DOTS_PER_INCH = 200
_FAINT = 0.3
_CELLS = 48  # of a map as it is drawn, along its longer side


def heat_maps(
    predictions: Any, grids: Sequence[PointGrid], num_classes: int
) -> tuple[np.ndarray, ...]:
    """The highest heat of any class at each point, as a map for each scale channel.

    An object is a maximum over place and scale. In a picture that is twice as large, the same
    maxima are in channels of twice the scale.

    Example:

    >>> features = detector(images, training=False)
    >>> grids, shape = detector.point_grids(images)
    >>> maps = heat_maps(features, grids, detector.num_classes)
    >>> [float(channel.max()) for channel in maps]

    Args:
        predictions: `[batch, points, features]`, what a `Detector` gives for images.
        grids: Of the channels, in the order of the points.
        num_classes: Number of classes.

    Returns:
        For each channel an array `[batch, rows, columns]` of numbers from 0 to 1.
    """
    logits = ops.cast(predictions[..., :num_classes], "float32")
    heat = ops.convert_to_numpy(ops.sigmoid(ops.max(logits, axis=-1)))
    ends = np.cumsum([grid.rows * grid.columns for grid in grids])[:-1]
    channels = zip(np.split(heat, ends, axis=1), grids, strict=True)
    return tuple(channel.reshape(-1, grid.rows, grid.columns) for channel, grid in channels)


def draw_heat_maps(
    maps: Sequence[np.ndarray],
    grids: Sequence[PointGrid],
    shape: tuple[int, int],
    width: float = 11.0,
) -> "Image":
    """The maps of one image side by side, small scales first, with the highest heat of each.

    Args:
        maps: For each channel `[rows, columns]`.
        grids: Of the channels.
        shape: Height and width of the image.
        width: Of the picture, in inches.

    Raises:
        ImportError: Without matplotlib or Pillow.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
        from PIL import Image
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install gdn_keras[plots]") from error
    map_height = width / len(grids) * shape[0] / shape[1]
    layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0)
    figure = Figure(figsize=(width, map_height + 1.15), layout=layout)
    bars, axes = figure.subplots(2, len(grids), height_ratios=(0.55, map_height), squeeze=False)
    # Where nothing is found, faint heat stays dark.
    top = max(_FAINT, *(float(heat.max()) for heat in maps))
    for bar, axis, heat, grid in zip(bars, axes, maps, grids, strict=True):
        _draw_peak(bar, float(heat.max()))
        _draw_map(axis, heat, grid, shape, top)
    bars[0].set_ylabel("highest\nscore", fontsize=8)
    figure.supxlabel("scale channels, by the size that they respond to", fontsize=10)
    canvas = FigureCanvasAgg(figure)
    figure.set_dpi(_DOTS_PER_INCH)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def _draw_peak(axis: Any, peak: float) -> None:
    axis.bar([0], [peak], width=0.6, color="#f3701c")
    axis.set(xlim=(-1, 1), ylim=(0, 1.3), xticks=[], yticks=[])
    axis.text(0, peak + 0.04, f"{peak:.2f}", ha="center", va="bottom", fontsize=8)
    for side in ("top", "left", "right"):
        axis.spines[side].set_visible(False)


def _draw_map(
    axis: Any, heat: np.ndarray, grid: PointGrid, shape: tuple[int, int], top: float
) -> None:
    """Heat in colours from 0 to `top`, in the frame of the image."""
    heat, step = _coarser(heat, grid.step)
    half_x, half_y = (step * count / 2 for count in heat.shape[::-1])
    axis.set_facecolor("black")
    extent = (-half_x, half_x, half_y, -half_y)
    colors = {"cmap": "inferno", "vmin": 0, "vmax": top, "interpolation": "bilinear"}
    axis.imshow(heat, extent=extent, **colors)
    axis.set(xlim=(-shape[1] / 2, shape[1] / 2), ylim=(shape[0] / 2, -shape[0] / 2))
    axis.set(xticks=[], yticks=[])
    axis.set_xlabel(f"{grid.scale:.2g}", fontsize=10)


def _coarser(heat: np.ndarray, step: float) -> tuple[np.ndarray, float]:
    """Maxima over squares of points, so that narrow peaks still show in a small picture."""
    side = -(-max(heat.shape) // _CELLS)
    padding = [(-count % side // 2, -count % side - -count % side // 2) for count in heat.shape]
    rows, columns = (sum(pad) + n for pad, n in zip(padding, heat.shape, strict=True))
    blocks = np.pad(heat, padding).reshape(rows // side, side, columns // side, side)
    return blocks.max(axis=(1, 3)), step * side
