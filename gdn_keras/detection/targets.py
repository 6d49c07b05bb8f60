"""What a detector should say at its points, given the boxes in an image.

An object of class c, centre (x, y) and size s, the longer side of its box over `extent`, is a blob
of heat in the scale space of class c:

    exp(-2 (dx^2 + dy^2 + du^2)),

dx and dy in steps of each channel's own last grid, and du = log(sigma_0 / s) / log(sqrt(2)), which
counts channels where these are a factor of sqrt(2) apart: standard deviations of half a step and
half a channel. Everything is in units of sigma_0, hence covariant: what is learned at one size
holds at all. A network may be trained with channels closer together than it is used with; it then
learns what lies between channels.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from gdn_keras.detection.points import Points

# 1 / (2 sd^2) for a standard deviation of half a step or half a channel.
SHARPNESS = 2.0

_LOG_UNIT = math.log(2) / 2


def channel_spacing(scales: Sequence[float], name: str = "scales") -> float:
    """Distance between successive channels, in factors of sqrt(2).

    Args:
        scales: sigma_0 of two or more channels.
        name: What they are called where they are not equally far apart.

    Raises:
        ValueError: If it is not the same throughout.
    """
    steps = np.diff(np.log(scales))
    if not np.allclose(steps, steps[0], rtol=0.05):
        raise ValueError(
            f"`{name}` of a detector must be in geometric progression. "
            f"Received: {name}={list(scales)}"
        )
    return float(steps.mean()) / _LOG_UNIT


def scale_factor(distance: Any) -> Any:
    """The ratio of scales at a distance in factors of sqrt(2)."""
    return ops.exp(_LOG_UNIT * distance)


def object_heat(
    points: Points, boxes: Any, labels: Any, extent: float, any_size: bool = False
) -> Any:
    """Heat of each object at each point.

    Args:
        points: From `grid_points`.
        boxes: `[batch, objects, 4]`, (x1, y1, x2, y2) in pixels.
        labels: `[batch, objects]`; negative where there is no object.
        extent: Longer side of an object of size 1, in pixels.
        any_size: Whether each channel answers for all sizes: for networks with one channel.

    Returns:
        `[batch, points, objects]`.
    """
    x, y, width, height = _centers(boxes)
    dx, dy = (
        (at[None, :, None] - center[:, None]) / points.step[None, :, None]
        for at, center in ((points.x, x), (points.y, y))
    )
    distance = dx**2 + dy**2
    if not any_size:
        size = ops.maximum(ops.maximum(width, height), 1e-6) / extent
        du = (ops.log(points.scale)[None, :, None] - ops.log(size)[:, None]) / _LOG_UNIT
        distance = distance + du**2
    heat = ops.exp(-SHARPNESS * distance)
    return heat * ops.cast(labels >= 0, heat.dtype)[:, None]


def class_heat(heat: Any, labels: Any, num_classes: int) -> Any:
    """Targets `[batch, points, classes]`: for each class, the heat of its nearest object."""
    classes = ops.one_hot(ops.maximum(labels, 0), num_classes, dtype=heat.dtype)
    return ops.max(heat[..., None] * classes[:, None], axis=2)


def box_targets(points: Points, heat: Any, boxes: Any, extent: float) -> Any:
    """Box of each point's nearest object, seen from the point: `[batch, points, 4]`.

    Offset of the centre in steps, then the logs of width and height over `extent * sigma_0`.
    """
    nearest = ops.one_hot(ops.argmax(heat, axis=2), ops.shape(boxes)[1], dtype=heat.dtype)
    x, y, width, height = _centers(ops.matmul(nearest, ops.cast(boxes, heat.dtype)))
    side = extent * points.scale
    return ops.stack(
        [
            (x - points.x) / points.step,
            (y - points.y) / points.step,
            *(ops.log(ops.maximum(length, 1e-6) / side) for length in (width, height)),
        ],
        axis=-1,
    )


def _centers(boxes: Any) -> tuple[Any, Any, Any, Any]:
    x1, y1, x2, y2 = (boxes[..., k] for k in range(4))
    return (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1
