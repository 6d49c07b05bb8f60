"""Decoding and suppression in plain loops, as their docstrings define them."""

import math

import numpy as np


def iou(a, b):
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    shared = max(sides[0], 0) * max(sides[1], 0)
    area = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return shared / max(area - shared, 1e-9)


def share(a, b):
    """Of the area of `a`, that in `b`."""
    sides = [max(0, min(a[k + 2], b[k + 2]) - max(a[k], b[k])) for k in range(2)]
    return sides[0] * sides[1] / ((a[2] - a[0]) * (a[3] - a[1]))


def suppress(boxes, valid, threshold, part_threshold=1.0):
    """Greedy, best first."""
    kept = []
    for k in range(len(boxes)):
        if valid[k] and all(
            iou(boxes[k], boxes[j]) <= threshold
            and share(boxes[k], boxes[j]) <= part_threshold + 1e-5
            for j in kept
        ):
            kept.append(k)
    return kept


class ScaleSpace:
    """Log of the heat of one image by (channel, row, column, class)."""

    def __init__(self, logits, grids):
        self.grids, self.planes, first = grids, [], 0
        for grid in grids:
            part = logits[first : first + grid.rows * grid.columns]
            self.planes.append(part.reshape(grid.rows, grid.columns, -1).astype("float64"))
            first += grid.rows * grid.columns

    def log_heat(self, channel, row, column, label):
        """`None` off the grid."""
        if not 0 <= channel < len(self.grids):
            return None
        grid = self.grids[channel]
        if not (0 <= row < grid.rows and 0 <= column < grid.columns):
            return None
        return -math.log1p(math.exp(-self.planes[channel][row, column, label]))

    def maxima(self):
        for channel, plane in enumerate(self.planes):
            best = plane.max(axis=2)
            for row, column in np.ndindex(best.shape):
                window = best[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
                if best[row, column] >= window.max():
                    yield channel, row, column, int(plane[row, column].argmax())

    def nearby(self, channel, x, y, label):
        """The log of the heat in another channel at (x, y), from its nearest point."""
        if not 0 <= channel < len(self.grids):
            return None
        grid = self.grids[channel]
        column, row = x / grid.step + (grid.columns - 1) / 2, y / grid.step + (grid.rows - 1) / 2
        near_column = min(max(round(column), 0), grid.columns - 1)
        near_row = min(max(round(row), 0), grid.rows - 1)
        distance = (column - near_column) ** 2 + (row - near_row) ** 2
        return self.log_heat(channel, near_row, near_column, label) + 2 * min(distance, 0.5)


def vertex(left, here, right):
    if left is None and right is None:
        return 0.0
    if left is None:
        left = 2 * here - 4 - right
    if right is None:
        right = 2 * here - 4 - left
    curvature = max(2 * here - left - right, 1e-6)
    return min(max((right - left) / (2 * curvature), -0.5), 0.5)


def decode(logits, grids, shape, extent, threshold, iou_threshold, count):
    """Boxes, labels, confidences and sizes in one image, best first."""
    space, ratio, found = ScaleSpace(logits, grids), grids[1].scale / grids[0].scale, []
    for c, row, column, label in space.maxima():
        grid, here = grids[c], space.log_heat(c, row, column, label)
        dx, dy = (
            vertex(
                space.log_heat(c, row - a, column - b, label),
                here,
                space.log_heat(c, row + a, column + b, label),
            )
            for a, b in ((0, 1), (1, 0))
        )
        x = grid.step * (column + dx - (grid.columns - 1) / 2)
        y = grid.step * (row + dy - (grid.rows - 1) / 2)
        here += 2 * (dx**2 + dy**2)
        finer, coarser = (space.nearby(c + k, x, y, label) for k in (-1, 1))
        if any(value is not None and value > here for value in (finer, coarser)):
            continue
        du = vertex(finer, here, coarser)
        size = grid.scale * ratio**du
        score = here + 2 * du**2
        confidence = math.exp(min(score, 0))
        x, y, half = x + shape[1] / 2, y + shape[0] / 2, extent * size / 2
        box = np.clip([x - half, y - half, x + half, y + half], 0, [*shape[::-1], *shape[::-1]])
        if confidence >= threshold:
            found.append((confidence, label, size, box, score))
    found.sort(key=lambda row: -row[4])
    kept = suppress([row[3] for row in found], [True] * len(found), iou_threshold)
    return [found[k] for k in kept][:count]
