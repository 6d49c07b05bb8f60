"""What a detector should say at its points, given the boxes in an image, and how far it is from it.

An object of class c, center (x, y) and size s, the longer side of its box over `extent`, is a blob
of heat in the scale space of class c:

    exp(-2 (dx^2 + dy^2 + du^2)),

dx and dy in steps of each channel's own last grid, and du = log2(sigma_0 / s) * per_octave, which
counts channels where an octave has `per_octave` of them: standard deviations of half a step and
half a channel. Everything is in units of sigma_0, hence covariant: what is learned at one size
holds at all. A network trained with channels closer together than it is used with also learns what
lies between channels.

A label of -2 marks a box that is neither object nor background, such as one of a size that is not
to be learned: the points that would answer for it, and those around them, have no loss. Nor have
points beyond the image, in whose mirror image there are objects without boxes.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from gdn_keras.layers.scale_batch_normalization import replica_context
from gdn_keras.scale_space import PointGrid

SHARPNESS = 2.0  # 1 / (2 sd^2) for a standard deviation of half a step or half a channel
IGNORED = -2  # the label of a box without a loss
_NO_LOSS = 6.0  # squared distance to such a box, in steps and channels, of points without a loss


class Points(NamedTuple):
    """All points of an image, channel by channel and row by row, as vectors.

    x and y are positions in pixels, the image covers [0, width] × [0, height]; `scale` is sigma_0
    of the point's channel, and `step` the distance to the channel's next point.
    """

    x: Any
    y: Any
    scale: Any
    step: Any


def grid_points(grids: Sequence[PointGrid], shape: tuple[Any, Any]) -> Points:
    """The points of an image of a height and width, given the grids of its channels."""
    channels = []
    for grid in grids:
        y, x = (
            ops.cast(length, "float32") / 2 + grid.step * from_middle(ops.arange(count), count)
            for count, length in zip((grid.rows, grid.columns), shape, strict=True)
        )
        zeros = ops.zeros_like(y)[:, None] + ops.zeros_like(x)
        values = zeros + x, zeros + y[:, None], zeros + grid.scale, zeros + grid.step
        channels.append([ops.reshape(v, (-1,)) for v in values])
    return Points(*(ops.concatenate(parts) for parts in zip(*channels, strict=True)))


def in_image(points: Points, shape: tuple[Any, Any]) -> Any:
    """1 for points of an image of a height and width, 0 for those of a network's `border`."""
    height, width = (ops.cast(length, "float32") for length in shape)
    inside = (points.x > 0) & (points.x < width) & (points.y > 0) & (points.y < height)
    return ops.cast(inside, "float32")


def from_middle(index: Any, count: Any) -> Any:
    """Positions of points along an axis of a grid of `count`, from its middle, in steps."""
    return ops.cast(index, "float32") - (ops.cast(count, "float32") - 1) / 2


def object_distance(
    points: Points, boxes: Any, extent: float, per_octave: float, any_size: bool = False
) -> Any:
    """Squared distance of each object to each point, in steps and channels.

    `[batch, points, objects]`, from boxes `[batch, objects, 4]`, (x1, y1, x2, y2) in pixels. With
    `any_size` each channel answers for all sizes: for networks with one channel.
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

    `[batch, points, objects]`, and `[batch, points]` of 0 and 1, from `object_distance` and labels
    `[batch, objects]`: negative where there is no object, -2 where there is no loss.
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

    Offset of the center in steps, then the logs of width and height over `extent * sigma_0`.
    """
    nearest = ops.one_hot(ops.argmax(heat, axis=2), ops.shape(boxes)[1], dtype=heat.dtype)
    x, y, *sides = _centers(ops.matmul(nearest, ops.cast(boxes, heat.dtype)))
    width, height = (ops.log(ops.maximum(n, 1e-6) / (extent * points.scale)) for n in sides)
    dx, dy = (x - points.x) / points.step, (y - points.y) / points.step
    return ops.stack([dx, dy, width, height], axis=-1)


def _centers(boxes: Any) -> tuple[Any, Any, Any, Any]:
    x1, y1, x2, y2 = (boxes[..., k] for k in range(4))
    return (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1


def heat_loss(targets: Any, logits: Any, counted: Any) -> Any:
    """Binary cross-entropy times max(|target - p|^2, target), summed where `counted` is 1.

    Where there is nothing, the focus is on what is wrong. On objects all of the heat counts, since
    position and size are read off its shape; what perfect predictions cost there is taken off.

    Reference: Li et al., Generalized Focal Loss (NeurIPS 2020), "quality focal loss".
    """
    entropy = ops.maximum(logits, 0) - logits * targets + ops.log1p(ops.exp(-ops.abs(logits)))
    focus = ops.maximum((targets - ops.sigmoid(logits)) ** 2, targets)
    least = -sum(share * ops.log(ops.maximum(share, 1e-30)) for share in (targets, 1 - targets))
    return ops.sum(ops.sum(entropy * focus - targets * least, axis=-1) * counted)


def box_loss(targets: Any, predictions: Any, heat: Any) -> Any:
    """Absolute error of boxes `[batch, points, 4]`, each point weighted by its heat, summed.

    Over the sum of the heat, boxes weigh as much however many points and channels there are.
    """
    return ops.sum(heat * ops.mean(ops.abs(targets - predictions), axis=-1))


def overlap_loss(targets: Any, predictions: Any, heat: Any, unit: Any) -> Any:
    """One minus the complete IoU of such boxes, each point weighted by its heat, summed.

    `unit` is each point's step over its `extent * sigma_0`, `[points]`.
    """

    def in_units(boxes: Any) -> Any:
        """(center, width, height) in units of what their channels respond to."""
        sides = ops.exp(ops.clip(boxes[..., 2:], -4.0, 4.0))
        return ops.concatenate([boxes[..., :2] * unit[:, None], sides], axis=-1)

    seen, said = in_units(targets), in_units(predictions)
    overlap = keras.utils.bounding_boxes.compute_ciou(seen, said, "center_xywh")
    return ops.sum(heat * (1 - overlap))


def sum_over_replicas(values: Any) -> Any:
    """The sum over the replicas of `tf.distribute`, without a gradient."""
    replica, values = replica_context(), ops.stop_gradient(values)
    return values if replica is None else replica.all_reduce("SUM", values)


def spread_over_replicas(loss: Any) -> Any:
    """A replica's part of a loss, with its own gradient and an equal share of the whole as value.

    Keras adds up the gradients of the replicas, and logs the mean of their values, weighted by
    their images, times the number of replicas.
    """
    if (replica := replica_context()) is None:
        return loss
    share = sum_over_replicas(loss) / replica.num_replicas_in_sync
    return share + (loss - ops.stop_gradient(loss))
