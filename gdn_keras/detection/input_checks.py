"""Checks of images, boxes and labels, in arrays and as pipelines give them."""

import math
import types
import warnings
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from gdn_keras.checks import check_images, check_numbers, require
from gdn_keras.detection.targets import IGNORED

_LEAST_SIDE = 3
_ENOUGH = 100  # boxes of a pipeline after which most of them may be called too small or too large

# Where x1 or the center's x, y, then x2 or the width, y2 or the height are in a box.
_ORDERS = {"x": (0, 1, 2, 3), "y": (1, 0, 3, 2)}


def checked_images(images: Any, channels: int, takes_pixels: bool) -> Any:
    """Images or a pipeline of them for a detector, with a last axis where grey ones have none."""
    images = check_images(images, channels, takes_pixels)
    shape = tuple(getattr(images, "shape", ()))
    if any(side is not None and side < _LEAST_SIDE for side in shape[1:3]):
        raise ValueError(
            f"Images must be at least {_LEAST_SIDE}x{_LEAST_SIDE} pixels. Received: shape {shape}"
        )
    return images


def by_shape(images: Sequence[Any]) -> dict[tuple[int, ...], np.ndarray]:
    """The images of a list, stacked with those of the same shape, by their places in the list."""
    places: dict[tuple[int, ...], list[int]] = {}
    arrays = [check_numbers(np.asarray(image)) for image in images]
    for k, array in enumerate(arrays):
        places.setdefault(array.shape, []).append(k)
    if not arrays:
        raise ValueError(f"There must be at least one image. Received: {images!r}")
    return {tuple(mine): np.stack([arrays[k] for k in mine]) for mine in places.values()}


def as_batch(images: Any) -> Any:
    """A list of images of one size as an array; anything else unchanged."""
    if not isinstance(images, list | tuple):
        return images
    groups = list(by_shape(images).values())
    if len(groups) > 1:
        raise ValueError(
            "Images to train and evaluate on must be of one size in a batch: pad them, or give a "
            f"generator of batches. Received: shapes {[group.shape[1:] for group in groups]}"
        )
    return groups[0]


class TargetChecker:
    """Raises on wrong boxes and labels, and counts boxes that no scale channel answers for.

    `sides` are the least and greatest longer side of the boxes that the network answers for.
    """

    def __init__(self, bounding_box_format: str, num_classes: int, sides: tuple[float, float]):
        self.bounding_box_format, self.num_classes = bounding_box_format, num_classes
        self.sides = sides
        self.error: ValueError | None = None  # kept, since pipelines put it in words of their own
        self._boxes = self._outside = 0
        self._extremes = (math.inf, 0.0)
        self._has_warned = False

    def check(self, boxes: Any, labels: Any, shape: Sequence[int]) -> None:
        """Raise where a box or a label of a batch is wrong, or most boxes so far.

        Boxes are `[batch, objects, 4]`, labels `[batch, objects]`; `shape` is that of the images.
        """
        try:
            require(len(boxes) == shape[0], "y", f"be of {shape[0]} images", len(boxes))  # each
            self._check(np.asarray(boxes), np.asarray(labels), shape[1:3])
            if self._boxes >= _ENOUGH:
                self._check_share()
        except ValueError as error:
            self.error = error
            raise

    def check_batch(self, x: Any, y: Any) -> None:
        """`check` for images and what a user gives as their targets."""
        boxes, labels = dense_targets(y)
        self.check(boxes, labels, tuple(check_numbers(x).shape))

    def conclude(self) -> None:
        """Raise if most boxes were too small or too large; warn, once, if some were."""
        self._check_share()
        if self._outside and not self._has_warned:
            self._has_warned = True
            warnings.warn(self._finding(), stacklevel=4)

    def _check(self, boxes: np.ndarray, labels: np.ndarray, shape: Sequence[int]) -> None:
        check_shapes(boxes, labels)
        _check_labels(labels, self.num_classes)
        corners = to_corners(boxes, self.bounding_box_format, shape)[labels >= 0]
        _check_corners(corners, shape)
        sides = np.max(corners[:, 2:] - corners[:, :2], axis=1)
        low, high = self.sides
        self._boxes += len(sides)
        self._outside += int(((sides < low) | (sides > high)).sum())
        smallest, largest = self._extremes
        self._extremes = (sides.min(initial=smallest), sides.max(initial=largest))

    def _check_share(self) -> None:
        if self._outside > self._boxes / 2:
            raise ValueError(self._finding())

    def _finding(self) -> str:
        (low, high), (smallest, largest) = self.sides, self._extremes
        return (
            f"{self._outside} of {self._boxes} boxes ({self._outside / self._boxes:.0%}) are of a "
            f"size that no scale channel answers for: their longer sides must be {low:.3g} to "
            f"{high:.3g} pixels, which is what `extent` times the scales of the network covers, in "
            f"bounding_box_format={self.bounding_box_format!r}. "
            f"Received: {smallest:.3g} to {largest:.3g} pixels"
        )


def dense_targets(y: Any) -> tuple[Any, Any]:
    """Boxes and labels, which may have been ragged; raises unless there are both."""
    if not isinstance(y, dict) or not {"boxes", "labels"} <= y.keys():
        raise ValueError(
            'Targets must be a dictionary with "boxes" and "labels". '
            f"Received: {list(y) if isinstance(y, dict) else type(y).__name__}"
        )
    boxes, labels = (
        values.to_tensor(default) if hasattr(values, "to_tensor") else values
        for values, default in ((y["boxes"], 0), (y["labels"], -1))
    )
    return boxes, labels


def check_shapes(boxes: Any, labels: Any) -> None:
    """Raise unless boxes are `[batch, objects, 4]` and labels `[batch, objects]`."""
    is_right = len(boxes.shape) == 3 and boxes.shape[-1] == 4 and len(labels.shape) == 2
    pairs = zip(boxes.shape[:2], labels.shape, strict=False)
    # In graphs, a size may be unknown.
    if not is_right or any(a != b for a, b in pairs if None not in (a, b)):
        raise ValueError(
            "Boxes must have shape [batch, objects, 4], and labels [batch, objects]. "
            f"Received: shapes {tuple(boxes.shape)} and {tuple(labels.shape)}"
        )


def _check_labels(labels: np.ndarray, num_classes: int) -> None:
    """Raise unless labels are classes, -1 or -2. Augmentation of Keras makes floats of them."""
    wrong = labels.ravel()
    if labels.dtype.kind in "iuf":
        is_class = (wrong >= IGNORED) & (wrong < num_classes) & (wrong == np.floor(wrong))
        wrong = wrong[~is_class]
    if wrong.size:
        raise ValueError(
            f"Labels must be whole numbers below the number of classes, {num_classes}, -1 where "
            f"there is no object and {IGNORED} where it is ignored. "
            f"Received: {wrong[:1].tolist()[0]!r}"
        )


def _check_corners(boxes: np.ndarray, shape: Sequence[int]) -> None:
    """Raise unless all boxes `[n, 4]` (x1, y1, x2, y2) are in the image, at least in part."""
    low, high = boxes[:, :2], boxes[:, 2:]
    wrong = ~np.isfinite(boxes).all(axis=1) | ~(high > low).all(axis=1)
    if wrong.any():
        raise ValueError(
            "Boxes must have a positive width and height. "
            f"Received: (x1, y1, x2, y2) = {tuple(boxes[wrong][0].tolist())}"
        )
    outside = (high <= 0).any(axis=1) | (low >= tuple(shape)[::-1]).any(axis=1)
    if outside.any():
        raise ValueError(
            f"Boxes must lie in their image, {shape[1]} pixels wide and {shape[0]} high, at least "
            f"in part. Received: (x1, y1, x2, y2) = {tuple(boxes[outside][0].tolist())}"
        )


def to_corners(boxes: np.ndarray, source: str, shape: Sequence[int]) -> np.ndarray:
    """Boxes (x1, y1, x2, y2) in pixels, in NumPy: pipelines run it beside the training."""
    kind = source.removeprefix("rel_")
    if boxes.dtype.kind not in "iuf":
        raise ValueError(f"Boxes must be numbers. Received: dtype {boxes.dtype}")
    order = _ORDERS[kind.removeprefix("center_")[0]]
    boxes = boxes.astype("float64")[..., order]
    first, second = boxes[..., :2], boxes[..., 2:]
    if kind.startswith("center"):
        first, second = first - second / 2, first + second / 2
    elif kind.endswith("wh"):
        second = first + second
    unit = np.array(shape[::-1], "float64") if source.startswith("rel_") else 1.0
    return np.concatenate([first * unit, second * unit], axis=-1)


def checked_targets(x: Any, y: Any, checker: TargetChecker) -> Any:
    """`x` with its boxes and labels checked: now those of arrays, later those of pipelines.

    Returns what Keras is to be given in the place of `x`.
    """
    if isinstance(x, keras.utils.PyDataset):
        return _CheckedBatches(x, checker)
    if isinstance(x, types.GeneratorType):
        return (_checked_batch(batch, checker) for batch in x)
    if hasattr(x, "element_spec") and hasattr(x, "map"):
        return _checked_pipeline(x, checker)
    if hasattr(x, "shape"):
        checker.check_batch(x, y)
        checker.conclude()
    return x


def _checked_batch(batch: Any, checker: TargetChecker) -> Any:
    checker.check_batch(*keras.utils.unpack_x_y_sample_weight(batch)[:2])
    return batch


class _CheckedBatches(keras.utils.PyDataset):
    """A `PyDataset` whose batches are checked as they are read."""

    def __init__(self, batches: keras.utils.PyDataset, checker: TargetChecker):
        super().__init__(batches.workers, batches.use_multiprocessing, batches.max_queue_size)
        self.batches, self.checker = batches, checker
        self.on_epoch_begin, self.on_epoch_end = batches.on_epoch_begin, batches.on_epoch_end

    @property
    def num_batches(self) -> int | None:
        return self.batches.num_batches

    def __getitem__(self, index: int) -> Any:
        return _checked_batch(self.batches[index], self.checker)


def _checked_pipeline(batches: Any, checker: TargetChecker) -> Any:
    """A `tf.data.Dataset` whose batches are checked by the CPU while others are trained on."""
    import tensorflow as tf

    # What is known before a batch is read is checked outside of TensorFlow's own errors.
    x, y, _ = keras.utils.unpack_x_y_sample_weight(batches.element_spec)
    if isinstance(x, tf.RaggedTensorSpec):
        raise ValueError(f"Images must be of one size in each batch. Received: {x}")
    boxes, labels = dense_targets(y)
    check_shapes(boxes, labels)
    if not (labels.dtype.is_integer or labels.dtype.is_floating):
        raise ValueError(f"Labels must be whole numbers. Received: {labels.dtype.name}")

    def check(boxes: np.ndarray, labels: np.ndarray, shape: np.ndarray) -> np.ndarray:
        checker.check(boxes, labels, shape.tolist())
        return labels

    @tf.autograph.experimental.do_not_convert
    def look(*batch: Any) -> Any:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        boxes, labels = dense_targets(y)
        given = [boxes, labels, tf.shape(x)]
        with tf.control_dependencies([tf.numpy_function(check, given, labels.dtype)]):
            x = tf.identity(x)
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)

    return batches.map(look).prefetch(tf.data.AUTOTUNE)
