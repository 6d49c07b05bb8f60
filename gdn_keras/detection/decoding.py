"""From scores at points to boxes: local maxima in scale space, and between its points."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops

from gdn_keras.detection.suppression import non_maximum_suppression
from gdn_keras.detection.targets import SHARPNESS, channel_spacing, scale_factor
from gdn_keras.scale_space import PointGrid

# Maxima that are looked at for each detection that may be returned.
_CANDIDATES = 4


def decode_points(
    predictions: Any,
    grids: Sequence[PointGrid],
    shape: tuple[Any, Any],
    *,
    num_classes: int,
    extent: float,
    confidence_threshold: float,
    iou_threshold: float,
    max_detections: int,
    part_threshold: float = 1.0,
) -> dict[str, Any]:
    """Reads objects off the scores at a detector's points.

    1. In each channel, maxima over 3×3 points of the highest class.
    2. Position between points: vertex of the parabola through the log of the heat, along x and y.
       For the targets, which are Gaussian, it is exact.
    3. Size between channels: the same over the log of scale. A maximum over position that is none
       over scale is dropped.
    4. Confidence is the heat at the vertex. Boxes are squares of the size found there, or where
       the network regresses boxes, those of the grid point.
    5. Non-maximum suppression by overlap, whatever the class.

    Args:
        predictions: `[batch, points, features]`: logits of the classes, then nothing, or four
            numbers for each point's box as in `box_targets`.
        grids: Of the channels, in the order of the points.
        shape: Height and width of the images, integers or tensors.
        num_classes, extent, confidence_threshold, iou_threshold, max_detections, part_threshold:
            as in `Detector`.

    Returns:
        Dictionary of "boxes" `[batch, max_detections, 4]` (x1, y1, x2, y2), cut off at the image's
        edges, "labels", "confidence" and "size" `[batch, max_detections]`, best first and padded
        by -1, and "num_detections" `[batch]`.
    """
    predictions = ops.cast(predictions, "float32")
    logits = predictions[..., :num_classes]
    index, valid = _find_maxima(ops.max(logits, axis=-1), grids, _CANDIDATES * max_detections)
    label = ops.argmax(_at_points(logits, index), axis=-1)
    table = _Table.of(grids)
    peak, is_maximum = _refine(logits, label, index, table, grids)
    if predictions.shape[-1] > num_classes:
        peak = _regressed(peak, _at_points(predictions[..., num_classes:], index), index, table)
    width, height = extent * peak.width, extent * peak.height
    x, y = (ops.cast(n, "float32") / 2 + at for n, at in zip(shape[::-1], peak[:2], strict=True))
    boxes = ops.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], axis=-1)
    found = {
        "boxes": _cut_off(boxes, shape),
        "labels": ops.cast(label, "float32"),
        "confidence": ops.exp(ops.minimum(peak.score, 0.0)),
        "size": ops.sqrt(peak.width * peak.height),
    }
    valid = valid & is_maximum & (found["confidence"] >= confidence_threshold)
    score = ops.where(valid, peak.score, -float("inf"))
    return _best(found, score, (iou_threshold, part_threshold), max_detections)


class _Table(NamedTuple):
    """The grids, to be looked up by number of the channel."""

    first: Any  # number of the channel's first point
    rows: Any
    columns: Any
    scale: Any
    step: Any

    @classmethod
    def of(cls, grids: Sequence[PointGrid]) -> "_Table":
        first, rows, columns = [0], [], []
        for grid in grids:
            rows.append(ops.cast(grid.rows, "int32"))
            columns.append(ops.cast(grid.columns, "int32"))
            first.append(first[-1] + rows[-1] * columns[-1])
        return cls(
            ops.stack([ops.cast(n, "int32") for n in first[:-1]]),
            ops.stack(rows),
            ops.stack(columns),
            ops.convert_to_tensor([grid.scale for grid in grids], "float32"),
            ops.convert_to_tensor([grid.step for grid in grids], "float32"),
        )

    def __getitem__(self, channel: Any) -> "_Table":
        return _Table(*(ops.take(vector, channel) for vector in self))

    def cells(self, index: Any) -> tuple[Any, Any, Any]:
        """Channel, row and column of points."""
        channel = ops.sum(ops.cast(index[..., None] >= self.first, "int32"), axis=-1) - 1
        grid = self[channel]
        rest = index - grid.first
        return channel, rest // grid.columns, rest % grid.columns


class _Peak(NamedTuple):
    """Maxima between points: position from the image's centre, and log of the heat, to rank them.

    The parabola may rise above one, the log then above zero.
    """

    x: Any
    y: Any
    width: Any
    height: Any
    score: Any


def _find_maxima(scores: Any, grids: Sequence[PointGrid], count: int) -> tuple[Any, Any]:
    """Numbers of the highest maxima over 3×3 points `[batch, count]`, and whether they are any."""
    maxima, first = [], 0
    for grid in grids:
        points = grid.rows * grid.columns
        plane = ops.reshape(scores[:, first : first + points], (-1, grid.rows, grid.columns, 1))
        is_maximum = plane >= ops.max_pool(plane, 3, 1, padding="same")
        maxima.append(ops.reshape(ops.where(is_maximum, plane, -float("inf")), (-1, points)))
        first = first + points
    # There may be fewer points than are asked for.
    padding = ops.full_like(scores[:, :1], -float("inf")) * ops.ones((1, count))
    values, index = ops.top_k(ops.concatenate([*maxima, padding], axis=1), count)
    return ops.cast(ops.minimum(index, first - 1), "int32"), values > -float("inf")


def _refine(
    logits: Any, label: Any, index: Any, table: _Table, grids: Sequence[PointGrid]
) -> tuple[_Peak, Any]:
    """The vertices about maxima over position, and whether they are maxima over scale too."""

    def log_heat(channel: Any, row: Any, column: Any) -> tuple[Any, Any]:
        """Log of the heat at points, and whether they lie on their grid."""
        grid = table[channel]
        on_grid = (row >= 0) & (row < grid.rows) & (column >= 0) & (column < grid.columns)
        row, column = ops.clip(row, 0, grid.rows - 1), ops.clip(column, 0, grid.columns - 1)
        value = _at_classes(logits, grid.first + row * grid.columns + column, label)
        return ops.log_sigmoid(value), on_grid

    def nearby(channel: Any) -> tuple[Any, Any]:
        """The same for the points of another channel that are next to x and y, brought there."""
        exists = (channel >= 0) & (channel < channels)
        channel = ops.clip(channel, 0, channels - 1)
        grid = table[channel]
        column, row = x / grid.step + _middle(grid.columns), y / grid.step + _middle(grid.rows)
        near_column = ops.clip(ops.round(column), 0, ops.cast(grid.columns - 1, "float32"))
        near_row = ops.clip(ops.round(row), 0, ops.cast(grid.rows - 1, "float32"))
        value, _ = log_heat(channel, ops.cast(near_row, "int32"), ops.cast(near_column, "int32"))
        # The fall of the targets over position is known, and taken out.
        distance = (column - near_column) ** 2 + (row - near_row) ** 2
        return value + SHARPNESS * ops.minimum(distance, 0.5), exists

    channels = len(grids)
    channel, row, column = table.cells(index)
    here, _ = log_heat(channel, row, column)
    dx = _vertex(log_heat(channel, row, column - 1), here, log_heat(channel, row, column + 1))
    dy = _vertex(log_heat(channel, row - 1, column), here, log_heat(channel, row + 1, column))
    grid = table[channel]
    x = grid.step * (ops.cast(column, "float32") + dx - _middle(grid.columns))
    y = grid.step * (ops.cast(row, "float32") + dy - _middle(grid.rows))
    here = here + SHARPNESS * (dx**2 + dy**2)
    size, is_maximum = grid.scale, ops.ones_like(here, dtype="bool")
    if channels > 1:
        finer, coarser = nearby(channel - 1), nearby(channel + 1)
        is_maximum = _not_below(here, finer) & _not_below(here, coarser)
        spacing = channel_spacing(grids)
        du = spacing * _vertex(finer, here, coarser, spacing)
        size, here = size * scale_factor(du), here + SHARPNESS * du**2
    return _Peak(x, y, size, size, here), is_maximum


def _vertex(left: tuple[Any, Any], here: Any, right: tuple[Any, Any], spacing: float = 1.0) -> Any:
    """Where the parabola through three neighbours has its maximum, in steps from the middle.

    A neighbour that is missing has the value that makes the parabola as sharp as the targets.
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


def _not_below(here: Any, neighbour: tuple[Any, Any]) -> Any:
    value, exists = neighbour
    return ops.logical_or(ops.logical_not(exists), here >= value)


def _regressed(peak: _Peak, features: Any, index: Any, table: _Table) -> _Peak:
    """The peak with the box that the network gives at its grid point."""
    channel, row, column = table.cells(index)
    grid = table[channel]
    offset_x, offset_y, width, height = (features[..., k] for k in range(4))
    return _Peak(
        grid.step * (ops.cast(column, "float32") + offset_x - _middle(grid.columns)),
        grid.step * (ops.cast(row, "float32") + offset_y - _middle(grid.rows)),
        grid.scale * ops.exp(width),
        grid.scale * ops.exp(height),
        peak.score,
    )


def _best(
    found: dict[str, Any], score: Any, thresholds: tuple[float, float], count: int
) -> dict[str, Any]:
    """Those of the highest, finite scores that do not overlap, padded to `count`."""
    score, order = ops.top_k(score, score.shape[1])
    found = {name: _at_points(values, order) for name, values in found.items()}
    kept = non_maximum_suppression(found["boxes"], score > -float("inf"), *thresholds)
    score, order = ops.top_k(ops.where(kept, score, -float("inf")), count)
    is_found = score > -float("inf")
    best = {"num_detections": ops.sum(ops.cast(is_found, "int32"), axis=1)}
    for name, values in found.items():
        mask = is_found[..., None] if name == "boxes" else is_found
        best[name] = ops.where(mask, _at_points(values, order), -1.0)
    return {**best, "labels": ops.cast(best["labels"], "int32")}


def _cut_off(boxes: Any, shape: tuple[Any, Any]) -> Any:
    height, width = (ops.cast(n, "float32") for n in shape)
    return ops.clip(boxes, 0.0, ops.stack([width, height, width, height]))


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


def _middle(count: Any) -> Any:
    """The middle of a grid, in steps from its first point."""
    return (ops.cast(count, "float32") - 1) / 2
