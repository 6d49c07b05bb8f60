"""Checks of boxes, each with an error of one line."""

import numpy as np


def check_boxes(
    boxes: np.ndarray, labels: np.ndarray, shape: tuple[int, int], num_classes: int
) -> None:
    """Raise unless all boxes are in the image, at least in part, and labels are classes.

    Args:
        boxes: `[n, 4]`, (x1, y1, x2, y2) in pixels.
        labels: `[n]`.
        shape: Height and width of the image.
        num_classes: Number of classes.
    """
    boxes = np.asarray(boxes, "float64")
    low, high = boxes[:, :2], boxes[:, 2:]
    wrong = ~np.isfinite(boxes).all(axis=1) | (high <= low).any(axis=1)
    if wrong.any():
        raise ValueError(
            "Boxes must have a positive width and height. "
            f"Received: (x1, y1, x2, y2) = {tuple(boxes[wrong][0].tolist())}"
        )
    outside = (high <= 0).any(axis=1) | (low >= shape[::-1]).any(axis=1)
    if outside.any():
        raise ValueError(
            f"Boxes must lie in their image, {shape[1]} pixels wide and {shape[0]} high, at least "
            f"in part. Received: (x1, y1, x2, y2) = {tuple(boxes[outside][0].tolist())}"
        )
    if len(labels) and max(labels) >= num_classes:
        raise ValueError(
            f"Labels must be below the number of classes, {num_classes}. Received: {max(labels)}"
        )
