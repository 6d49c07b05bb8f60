"""What a detector sees: the heat of each scale channel, over place."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from gdn_keras.scale_space import PointGrid


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
