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


def planes_of(values, grids):
    """What is at all points, by channel, row and column."""
    planes, first = [], 0
    for grid in grids:
        part = values[first : first + grid.rows * grid.columns]
        planes.append(part.reshape(grid.rows, grid.columns, -1).astype("float64"))
        first += grid.rows * grid.columns
    return planes


class ScaleSpace:
    """Log of the heat of one image by (channel, row, column, class)."""

    def __init__(self, logits, grids):
        self.grids, self.planes = grids, planes_of(logits, grids)

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
                    yield channel, row, column, self.label(channel, row, column)

    def label(self, channel, row, column):
        """The class with most heat at a point and the four beside it."""
        total = 0
        for a, b in ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)):
            if self.log_heat(channel, row + a, column + b, 0) is not None:
                total = total + 1 / (1 + np.exp(-self.planes[channel][row + a, column + b]))
        return int(np.argmax(total))

    def nearby(self, channel, x, y, label):
        """The log of the heat in another channel at (x, y), from its nearest point."""
        if not 0 <= channel < len(self.grids):
            return None
        row, column, distance = self.nearest(channel, x, y)
        return self.log_heat(channel, row, column, label) + 2 * min(distance, 0.5)

    def nearest(self, channel, x, y):
        """Row and column of the nearest point, and its squared distance in steps."""
        grid = self.grids[channel]
        column, row = x / grid.step + (grid.columns - 1) / 2, y / grid.step + (grid.rows - 1) / 2
        near_column = min(max(round(column), 0), grid.columns - 1)
        near_row = min(max(round(row), 0), grid.rows - 1)
        return near_row, near_column, (column - near_column) ** 2 + (row - near_row) ** 2

    def mean_box(self, boxes, channel, row, column, label):
        """Centre and log of width and height: those of points around, weighted by their heat."""
        cells = [(channel, row, column)]
        cells += [(channel, row + a, column + b) for a, b in ((0, 1), (0, -1), (1, 0), (-1, 0))]
        found, weights = [], []
        for c, i, j in cells:
            heat = self.log_heat(c, i, j, label)
            if heat is None:
                continue
            grid, (dx, dy, width, height) = self.grids[c], boxes[c][i, j]
            there_x = grid.step * (j + dx - (grid.columns - 1) / 2)
            there_y = grid.step * (i + dy - (grid.rows - 1) / 2)
            log_scale = math.log(grid.scale)
            found.append([there_x, there_y, log_scale + width, log_scale + height])
            weights.append(math.exp(heat))
        return np.average(found, axis=0, weights=weights)


def vertex(left, here, right):
    if left is None and right is None:
        return 0.0
    if left is None:
        left = 2 * here - 4 - right
    if right is None:
        right = 2 * here - 4 - left
    curvature = max(2 * here - left - right, 1e-6)
    return min(max((right - left) / (2 * curvature), -0.5), 0.5)


def decode(logits, grids, shape, extent, threshold, iou_threshold, count, boxes=None):
    """Boxes, labels, confidences and sizes in one image, best first."""
    boxes = None if boxes is None else planes_of(boxes, grids)
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
        du = vertex(finer, here, coarser)
        size = grid.scale * ratio**du
        score = here + 2 * du**2
        width = height = size
        if boxes is not None:
            x, y, *sides = space.mean_box(boxes, c, row, column, label)
            width, height = np.exp(sides)
            size = max(width, height)
        x, y = x + shape[1] / 2, y + shape[0] / 2
        width, height = extent * width / 2, extent * height / 2
        box = [x - width, y - height, x + width, y + height]
        box = np.clip(box, 0, [*shape[::-1], *shape[::-1]])
        score += (
            math.log(max((box[2] - box[0]) * (box[3] - box[1]) / (4 * width * height), 1e-9)) / 2
        )
        confidence = math.exp(min(score, 0))
        beyond = (abs(at - n / 2) - n / 2 for at, n in zip((x, y), shape[::-1], strict=True))
        in_image = all(
            0.1 * 2 * half >= far for half, far in zip((width, height), beyond, strict=True)
        )
        if confidence >= threshold and in_image:
            found.append((confidence, label, extent * size, box, score))
    found.sort(key=lambda row: -row[4])
    kept = suppress([row[3] for row in found], [True] * len(found), iou_threshold)
    return [found[k] for k in kept][:count]
