"""From scores at points to boxes: local maxima in scale space, and between its points."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from gdn_keras.detection.targets import SHARPNESS, from_middle
from gdn_keras.scale_space import PointGrid

_CANDIDATES = 4  # maxima that are looked at for each detection that may be returned

_BEYOND = 0.1  # how far beyond an edge an object's center may lie, over the object's side

_BESIDE = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))  # a point and its neighbors


def decode_points(
    predictions: Any,
    grids: Sequence[PointGrid],
    shape: tuple[Any, Any],
    *,
    num_classes: int,
    extent: float,
    per_octave: float,
    confidence_threshold: float,
    iou_threshold: float,
    max_detections: int,
    part_threshold: float = 1.0,
) -> dict[str, Any]:
    """Reads objects off the scores at a detector's points.

    1. In each channel, maxima over 3×3 points of the highest class. The class of a maximum is the
       one that has most heat there and at the four points beside it.
    2. Position between points: vertex of the parabola through the log of the heat, along x and y.
       For the targets, which are Gaussian, it is exact.
    3. Size between channels: the same over the log of scale. An object between two channels is a
       maximum over position in both; suppression leaves one of them.
    4. Boxes are squares of the size found there. Where the network regresses boxes, they are the
       mean of those of the maximum and the four points beside it, each weighted by its heat, which
       averages out errors. Confidence is the heat at the vertex, times the square root of the share
       of the box that the image's edges leave: the less there is to see, the less is known.
    5. Non-maximum suppression by overlap, whatever the class.

    `predictions` `[batch, points, features]` are logits of the classes, then nothing or four
    numbers for each point's box as in `box_targets`; other arguments are as in `Detector`.

    Returns:
        Dictionary of "boxes" `[batch, max_detections, 4]` (x1, y1, x2, y2), cut off at the image's
        edges, "labels", "confidence" and "size" `[batch, max_detections]`, the longer sides of the
        boxes before that, best first and padded by -1, and "num_detections" `[batch]`.
    """
    predictions = ops.cast(predictions, "float32")
    logits = predictions[..., :num_classes]
    index, valid = _find_maxima(ops.max(logits, axis=-1), grids, _CANDIDATES * max_detections)
    heat, table = ops.sigmoid(logits), _Table.of(grids)
    channel, row, column = cells = table.cells(index)
    beside = [table.points(channel, row + dy, column + dx) for dy, dx in _BESIDE]
    shares = (
        ops.cast(exists, "float32")[..., None] * _at_points(heat, point) for point, exists in beside
    )
    label = ops.argmax(sum(shares), axis=-1)
    octaves = channel_spacing([grid.scale for grid in grids]) if len(grids) > 1 else 0.0
    peak = _refine(logits, label, cells, table, octaves, per_octave)
    if predictions.shape[-1] > num_classes:
        peak = _regressed(peak, heat, predictions[..., num_classes:], label, beside, table)
    width, height = extent * peak.width, extent * peak.height
    x, y = (ops.cast(n, "float32") / 2 + at for n, at in zip(shape[::-1], peak[:2], strict=True))
    boxes = ops.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], axis=-1)
    rows, columns = (ops.cast(n, "float32") for n in shape)
    inside = ops.clip(boxes, 0.0, ops.stack([columns, rows, columns, rows]))
    share = ops.prod(inside[..., 2:] - inside[..., :2], axis=-1) / (width * height)
    score = peak.score + ops.log(ops.clip(share, 1e-9, 1.0)) / 2
    found = {
        "boxes": inside,
        "labels": ops.cast(label, "float32"),
        "confidence": ops.exp(ops.minimum(score, 0.0)),
        "size": ops.maximum(width, height),
    }
    valid = valid & (found["confidence"] >= confidence_threshold)
    # Beyond the edges are mirror images, and at the edges objects that are cut.
    for at, side, length in ((x, width, columns), (y, height, rows)):
        valid = valid & (ops.abs(at - length / 2) <= length / 2 + _BEYOND * side)
    score = ops.where(valid, score, -float("inf"))
    return _best(found, score, (iou_threshold, part_threshold), max_detections)


def channel_spacing(scales: Sequence[float], name: str = "scales") -> float:
    """Distance between successive channels in octaves, which must be the same for all."""
    steps = np.diff(np.log(scales))
    if not np.allclose(steps, steps[0], rtol=0.05):
        raise ValueError(
            f"`{name}` of a detector must be in geometric progression. "
            f"Received: {name}={list(scales)}"
        )
    return float(steps.mean()) / math.log(2)


class _Table(NamedTuple):
    """The grids, to be looked up by number of the channel."""

    first: Any  # number of the channel's first point
    rows: Any
    columns: Any
    scale: Any
    step: Any

    @classmethod
    def of(cls, grids: Sequence[PointGrid]) -> "_Table":
        scale, step, *counts = zip(*grids, strict=True)
        rows, columns = (ops.stack([ops.cast(n, "int32") for n in sizes]) for sizes in counts)
        scale, step = (ops.convert_to_tensor(values, "float32") for values in (scale, step))
        return cls(ops.cumsum(rows * columns) - rows * columns, rows, columns, scale, step)

    def __getitem__(self, channel: Any) -> "_Table":
        return _Table(*(ops.take(vector, channel) for vector in self))

    def cells(self, index: Any) -> tuple[Any, Any, Any]:
        """Channel, row and column of points."""
        channel = ops.sum(ops.cast(index[..., None] >= self.first, "int32"), axis=-1) - 1
        grid = self[channel]
        rest = index - grid.first
        return channel, rest // grid.columns, rest % grid.columns

    def points(self, channel: Any, row: Any, column: Any) -> tuple[Any, Any]:
        """Numbers of the points in cells, and whether there are any; of others if not."""
        exists = (channel >= 0) & (channel < self.channels)
        grid = self[ops.clip(channel, 0, self.channels - 1)]
        exists &= (row >= 0) & (row < grid.rows) & (column >= 0) & (column < grid.columns)
        row, column = ops.clip(row, 0, grid.rows - 1), ops.clip(column, 0, grid.columns - 1)
        return grid.first + row * grid.columns + column, exists

    def positions(self, channel: Any, row: Any, column: Any, dx: Any, dy: Any) -> tuple[Any, ...]:
        """x and y of cells, moved by so many steps, and the scale of their channels."""
        grid = self[channel]
        x = grid.step * (from_middle(column, grid.columns) + dx)
        y = grid.step * (from_middle(row, grid.rows) + dy)
        return x, y, grid.scale

    def nearest(self, channel: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        """Row and column of the points next to positions, and the squared distances in steps.

        In a channel, or in the next one where there is none.
        """
        grid = self[ops.clip(channel, 0, self.channels - 1)]
        cells, distance = [], 0.0
        for at, count in ((y, grid.rows), (x, grid.columns)):
            place = at / grid.step - from_middle(0, count)
            near = ops.clip(ops.round(place), 0, ops.cast(count - 1, "float32"))
            distance = distance + (place - near) ** 2
            cells.append(ops.cast(near, "int32"))
        return *cells, distance

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.first.shape[0]


class _Peak(NamedTuple):
    """Maxima between points, from the image's center, and the log of their heat, to rank them."""

    x: Any
    y: Any
    width: Any
    height: Any
    score: Any  # the parabola may rise above one, the log then above zero


def _find_maxima(scores: Any, grids: Sequence[PointGrid], count: int) -> tuple[Any, Any]:
    """Numbers of the highest maxima over 3×3 points `[batch, count]`, and whether they are any."""
    maxima, first = [], 0
    for grid in grids:
        points = grid.rows * grid.columns
        plane = ops.reshape(scores[:, first : first + points], (-1, grid.rows, grid.columns, 1))
        is_maximum = plane >= ops.max_pool(plane, 3, 1, padding="same")
        maxima.append(ops.reshape(ops.where(is_maximum, plane, -float("inf")), (-1, points)))
        first = first + points
    count = min(count, first) if isinstance(first, int) else ops.minimum(count, first)
    values, index = ops.top_k(ops.concatenate(maxima, axis=1), count)
    return ops.cast(index, "int32"), values > -float("inf")


def _refine(
    logits: Any, label: Any, cells: Any, table: _Table, octaves: float, per_octave: float
) -> _Peak:
    """The vertices about maxima over position, in cells of the table."""
    channel, row, column = cells

    def log_heat(channel: Any, row: Any, column: Any) -> tuple[Any, Any]:
        """Log of the heat in cells, and whether there are any."""
        point, exists = table.points(channel, row, column)
        return ops.log_sigmoid(_at_classes(logits, point, label)), exists

    def nearby(channel: Any) -> tuple[Any, Any]:
        """The same for the points of another channel that are next to x and y, brought there."""
        row, column, distance = table.nearest(channel, x, y)
        value, exists = log_heat(channel, row, column)
        # The fall of the targets over position is known, and taken out.
        return value + SHARPNESS * ops.minimum(distance, 0.5), exists

    here, _ = log_heat(channel, row, column)
    dx = _vertex(log_heat(channel, row, column - 1), here, log_heat(channel, row, column + 1))
    dy = _vertex(log_heat(channel, row - 1, column), here, log_heat(channel, row + 1, column))
    x, y, size = table.positions(channel, row, column, dx, dy)
    here = here + SHARPNESS * (dx**2 + dy**2)
    if table.channels > 1:
        finer, coarser = nearby(channel - 1), nearby(channel + 1)
        du = octaves * _vertex(finer, here, coarser, octaves * per_octave)
        size, here = size * 2**du, here + SHARPNESS * (per_octave * du) ** 2
    return _Peak(x, y, size, size, here)


def _vertex(left: tuple[Any, Any], here: Any, right: tuple[Any, Any], spacing: float = 1.0) -> Any:
    """Where the parabola through three neighbors has its maximum, in steps from the middle.

    A neighbor that is missing has the value that makes the parabola as sharp as the targets.
    """
    (low, has_left), (high, has_right) = left, right
    fall = SHARPNESS * spacing**2
    of_both = 2 * here - 2 * fall
    low, high = (
        ops.where(has_left, low, ops.where(has_right, of_both - high, here - fall)),
        ops.where(has_right, high, ops.where(has_left, of_both - low, here - fall)),
    )
    curvature = ops.maximum(2 * here - low - high, 1e-6)
    return ops.clip((high - low) / (2 * curvature), -0.5, 0.5)


def _regressed(
    peak: _Peak, heat: Any, boxes: Any, label: Any, around: list[tuple[Any, Any]], table: _Table
) -> _Peak:
    """The peak with the mean of the boxes that the network gives at points around it."""
    total, weights = 0.0, 0.0
    for point, exists in around:
        weight = ops.cast(exists, "float32") * _at_classes(heat, point, label)
        total = total + weight[..., None] * _box_of(_at_points(boxes, point), point, table)
        weights = weights + weight
    x, y, width, height = ops.unstack(total / ops.maximum(weights, 1e-12)[..., None], axis=-1)
    return _Peak(x, y, ops.exp(width), ops.exp(height), peak.score)


def _box_of(seen: Any, point: Any, table: _Table) -> Any:
    """Center, from the image's, and log of width and height of the boxes that points see."""
    dx, dy, width, height = (seen[..., k] for k in range(4))
    x, y, scale = table.positions(*table.cells(point), dx, dy)
    return ops.stack([x, y, ops.log(scale) + width, ops.log(scale) + height], axis=-1)


def _best(
    found: dict[str, Any], score: Any, thresholds: tuple[float, float], count: int
) -> dict[str, Any]:
    """Those of the highest, finite scores that do not overlap, padded to `count`."""
    score, order = ops.top_k(score, ops.shape(score)[1])
    if keras.backend.backend() != "jax":  # which needs to know the number of boxes
        # Suppression takes the square of their number: less those that are finite in no image.
        most = ops.max(ops.sum(ops.cast(score > -float("inf"), "int32"), axis=1))
        score, order = score[:, :most], order[:, :most]
    boxes = _at_points(found["boxes"], order)
    kept = non_maximum_suppression(boxes, score > -float("inf"), *thresholds)
    # There may be fewer of them than are asked for.
    padding = (0, 0), (0, count)
    score = ops.where(kept, score, -float("inf"))
    score, place = ops.top_k(ops.pad(score, padding, constant_values=-float("inf")), count)
    order = ops.take_along_axis(ops.pad(order, padding), place, axis=1)
    is_found = score > -float("inf")
    best = {"num_detections": ops.sum(ops.cast(is_found, "int32"), axis=1)}
    for name, values in found.items():
        mask = is_found[..., None] if name == "boxes" else is_found
        best[name] = ops.where(mask, _at_points(values, order), -1.0)
    return {**best, "labels": ops.cast(best["labels"], "int32")}


def _at_points(values: Any, index: Any) -> Any:
    """`values` `[batch, points, …]` at the points `index` `[batch, n]`."""
    if len(values.shape) == 2:
        return ops.take_along_axis(values, index, axis=1)
    return ops.take_along_axis(values, index[..., None], axis=1)


def _at_classes(logits: Any, index: Any, label: Any) -> Any:
    """`logits` `[batch, points, classes]` at points and classes `[batch, n]`."""
    classes = logits.shape[-1]
    flat = ops.reshape(logits, (ops.shape(logits)[0], -1))
    return ops.take_along_axis(flat, index * classes + ops.cast(label, "int32"), axis=1)


def non_maximum_suppression(
    boxes: Any, valid: Any, iou_threshold: float, part_threshold: float = 1.0
) -> Any:
    """Which boxes remain when each, best first, removes those that overlap it too much.

    The greedy result is the only solution of: a box remains if no better box that remains overlaps
    it. Applied over and over, that rule settles the boxes in their order, at least one more each
    time and all of them after a few.

    Boxes `[batch, n, 4]` are (x1, y1, x2, y2), best first; those that are not `valid` `[batch, n]`
    are neither kept nor remove any. Two remain up to an intersection over union, and up to a share
    of the box in a better one.
    """
    order = ops.arange(ops.shape(boxes)[1])
    better = order[:, None] < order
    # All pairs of boxes, `[batch, n, n]`.
    low = ops.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
    high = ops.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    shared = ops.prod(ops.maximum(high - low, 0), axis=-1)
    area = ops.prod(ops.maximum(boxes[..., 2:] - boxes[..., :2], 0), axis=-1)
    union = ops.maximum(area[:, :, None] + area[:, None] - shared, 1e-9)
    share = shared / ops.maximum(area[:, None], 1e-9)
    # A box inside of another is all in it, up to rounding.
    too_much = ops.logical_or(shared / union > iou_threshold, share > part_threshold + 1e-5)
    removes = ops.logical_and(too_much, better)

    def settle(kept: Any, _: Any) -> tuple[Any, Any]:
        removed = ops.any(ops.logical_and(kept[:, :, None], removes), axis=1)
        following = ops.logical_and(valid, ops.logical_not(removed))
        return following, ops.any(ops.not_equal(following, kept))

    kept, _ = ops.while_loop(lambda _, changed: changed, settle, settle(valid, None))
    return kept
