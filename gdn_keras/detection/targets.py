"""What a detector should say at its points, given the boxes in an image.

An object of class c, center (x, y) and size s, the longer side of its box over `extent`, is a blob
of heat in the scale space of class c:

    exp(-2 (dx^2 + dy^2 + du^2)),

dx and dy in steps of each channel's own last grid, and du = log2(sigma_0 / s) * per_octave, which
counts channels where an octave has `per_octave` of them: standard deviations of half a step and
half a channel. Everything is in units of sigma_0, hence covariant: what is learned at one size
holds at all. A network may be trained with channels closer together than it is used with; it then
learns what lies between channels.

A label of -2 marks a box that is neither object nor background, such as one of a size that is not
to be learned: the points that would answer for it, and those around them, have no loss.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from gdn_keras.detection.points import Points

# 1 / (2 sd^2) for a standard deviation of half a step or half a channel.
SHARPNESS = 2.0

IGNORED = -2  # the label of a box without a loss

# Squared distance to an ignored box, in steps and channels, up to which points have no loss.
_NO_LOSS = 6.0


def channel_spacing(scales: Sequence[float], name: str = "scales") -> float:
    """Distance between successive channels, in octaves.

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
    return float(steps.mean()) / math.log(2)


def object_distance(
    points: Points, boxes: Any, extent: float, per_octave: float, any_size: bool = False
) -> Any:
    """Squared distance of each object to each point, in steps and channels.

    Args:
        points: From `grid_points`.
        boxes: `[batch, objects, 4]`, (x1, y1, x2, y2) in pixels.
        extent: Longer side of an object of size 1, in pixels.
        per_octave: Channels in an octave, in units of which scales differ.
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
        octaves = (ops.log(points.scale)[None, :, None] - ops.log(size)[:, None]) / math.log(2)
        distance = distance + (per_octave * octaves) ** 2
    return distance


def object_heat(distance: Any, labels: Any) -> tuple[Any, Any]:
    """Heat of each object at each point, and which points have a loss.

    Args:
        distance: `[batch, points, objects]`, from `object_distance`.
        labels: `[batch, objects]`; negative where there is no object, -2 where there is no loss.

    Returns:
        `[batch, points, objects]`, and `[batch, points]` of 0 and 1.
    """
    heat = ops.exp(-SHARPNESS * distance) * ops.cast(labels >= 0, distance.dtype)[:, None]
    ignored = ops.logical_and(distance < _NO_LOSS, (labels == IGNORED)[:, None])
    return heat, 1 - ops.cast(ops.any(ignored, axis=2), heat.dtype)


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
