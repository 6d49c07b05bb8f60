"""The points at which a detector looks: the last grids of its scale channels, in pixels."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops

from gdn_keras.scale_space import PointGrid


class Points(NamedTuple):
    """All points of an image, channel by channel and row by row, as vectors.

    Attributes:
        x, y: Position in pixels; the image covers [0, width] × [0, height].
        scale: sigma_0 of the point's channel, in pixels.
        step: Distance to the next point of the channel, in pixels.
    """

    x: Any
    y: Any
    scale: Any
    step: Any


def grid_points(grids: Sequence[PointGrid], shape: tuple[Any, Any]) -> Points:
    """The points of an image of the given height and width.

    Args:
        grids: Of the scale channels, in the order of the network's points.
        shape: Height and width, integers or tensors.
    """
    channels = [_channel_points(grid, shape) for grid in grids]
    return Points(*(ops.concatenate(parts) for parts in zip(*channels, strict=True)))


def _channel_points(grid: PointGrid, shape: tuple[Any, Any]) -> Points:
    y, x = (
        _positions(grid.step, count, length)
        for count, length in zip((grid.rows, grid.columns), shape, strict=True)
    )
    zeros = ops.zeros_like(y)[:, None] + ops.zeros_like(x)
    x, y = zeros + x, zeros + y[:, None]
    flat = (ops.reshape(values, (-1,)) for values in (x, y, zeros + grid.scale, zeros + grid.step))
    return Points(*flat)


def _positions(step: float, count: Any, length: Any) -> Any:
    places = ops.cast(ops.arange(count), "float32")
    count, length = (ops.cast(value, "float32") for value in (count, length))
    return length / 2 + step * (places - (count - 1) / 2)
