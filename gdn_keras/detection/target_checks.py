"""Checks of boxes and labels, in arrays and as pipelines give them."""

import math
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np

from gdn_keras.detection.images import check_kind
from gdn_keras.detection.targets import IGNORED

# Boxes of a pipeline after which most of them may be called too small or too large.
_ENOUGH = 100

# Where x1 or the centre's x, y, then x2 or the width, y2 or the height are in a box.
_ORDERS = {"x": (0, 1, 2, 3), "y": (1, 0, 3, 2)}


class TargetChecker:
    """Raises on wrong boxes and labels, and counts boxes that no scale channel answers for.

    Args:
        bounding_box_format: As in `Detector`.
        num_classes: Number of classes.
        sides: Shortest and longest longer side of the boxes that the network answers for.
    """

    def __init__(self, bounding_box_format: str, num_classes: int, sides: tuple[float, float]):
        self.bounding_box_format, self.num_classes, self.sides = (
            bounding_box_format,
            num_classes,
            sides,
        )
        self.error: ValueError | None = None
        self._boxes = self._outside = 0
        self._extremes = (math.inf, 0.0)
        self._has_warned = False

    def check(self, boxes: Any, labels: Any, shape: Sequence[int]) -> None:
        """Raise where a box or a label of a batch is wrong, or most boxes so far.

        The error is kept too, since pipelines put it in words of their own.

        Args:
            boxes: `[batch, objects, 4]`.
            labels: `[batch, objects]`.
            shape: Height and width of the images.
        """
        try:
            self._check(np.asarray(boxes), np.asarray(labels), shape)
            if self._boxes >= _ENOUGH:
                self._check_share()
        except ValueError as error:
            self.error = error
            raise

    def conclude(self) -> None:
        """Raise if most boxes were too small or too large; warn, once, if some were."""
        self._check_share()
        if self._outside and not self._has_warned:
            self._has_warned = True
            warnings.warn(self._finding(), stacklevel=4)

    def _check(self, boxes: np.ndarray, labels: np.ndarray, shape: Sequence[int]) -> None:
        check_shapes(boxes, labels)
        check_labels(labels, self.num_classes)
        corners = to_corners(boxes, self.bounding_box_format, shape)[labels >= 0]
        check_corners(corners, shape)
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


def check_targets(y: Any) -> None:
    """Raise unless targets are a dictionary with boxes and labels."""
    if not isinstance(y, dict) or not {"boxes", "labels"} <= y.keys():
        raise ValueError(
            'Targets must be a dictionary with "boxes" and "labels". '
            f"Received: {list(y) if isinstance(y, dict) else type(y).__name__}"
        )


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


def check_labels(labels: np.ndarray, num_classes: int) -> None:
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


def check_corners(boxes: np.ndarray, shape: Sequence[int]) -> None:
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


def checked(x: Any, y: Any, checker: TargetChecker) -> Any:
    """`x` with its boxes and labels checked: now those of arrays, later those of pipelines.

    Args:
        x, y: What a user passes to `fit` or `evaluate`.
        checker: The checker.

    Returns:
        What Keras is to be given in the place of `x`.
    """
    if isinstance(x, keras.utils.PyDataset):
        return _CheckedBatches(x, checker)
    if isinstance(x, types.GeneratorType):
        return _checked_batches(x, checker)
    if hasattr(x, "element_spec") and hasattr(x, "map"):
        return _checked_pipeline(x, checker)
    if hasattr(x, "shape"):
        check_batch(x, y, checker)
        checker.conclude()
    return x


def check_batch(x: Any, y: Any, checker: TargetChecker) -> None:
    """Raise where a box or a label of a batch is wrong."""
    check_targets(y)
    check_kind(x)
    checker.check(_as_array(y["boxes"], 0), _as_array(y["labels"], -1), tuple(x.shape[1:3]))


def _as_array(values: Any, default: float) -> np.ndarray:
    """An array of what may be ragged."""
    return np.asarray(padded(values, default))


def padded(values: Any, default: float) -> Any:
    """Dense values of what may be ragged."""
    return values.to_tensor(default) if hasattr(values, "to_tensor") else values


def _checked_batches(batches: Iterator[Any], checker: TargetChecker) -> Iterator[Any]:
    for batch in batches:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        check_batch(x, y, checker)
        yield batch


class _CheckedBatches(keras.utils.PyDataset):
    """A `PyDataset` whose batches are checked as they are read."""

    def __init__(self, batches: keras.utils.PyDataset, checker: TargetChecker):
        super().__init__(batches.workers, batches.use_multiprocessing, batches.max_queue_size)
        self.batches, self.checker = batches, checker

    @property
    def num_batches(self) -> int | None:
        return self.batches.num_batches

    def __getitem__(self, index: int) -> Any:
        batch = self.batches[index]
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        check_batch(x, y, self.checker)
        return batch

    def on_epoch_begin(self) -> None:
        self.batches.on_epoch_begin()

    def on_epoch_end(self) -> None:
        self.batches.on_epoch_end()


def _checked_pipeline(batches: Any, checker: TargetChecker) -> Any:
    """A `tf.data.Dataset` whose batches are checked by the CPU while others are trained on."""
    import tensorflow as tf

    # What is known before a batch is read is checked outside of TensorFlow's own errors.
    x, y, _ = keras.utils.unpack_x_y_sample_weight(batches.element_spec)
    if isinstance(x, tf.RaggedTensorSpec):
        raise ValueError(f"Images must be of one size in each batch. Received: {x}")
    check_targets(y)
    check_shapes(y["boxes"], y["labels"])
    if not (y["labels"].dtype.is_integer or y["labels"].dtype.is_floating):
        raise ValueError(f"Labels must be whole numbers. Received: {y['labels'].dtype.name}")

    def check(boxes: np.ndarray, labels: np.ndarray, shape: np.ndarray) -> np.ndarray:
        checker.check(boxes, labels, shape.tolist())
        return labels

    @tf.autograph.experimental.do_not_convert
    def look(*batch: Any) -> Any:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        boxes, labels = padded(y["boxes"], 0), padded(y["labels"], -1)
        given = [boxes, labels, tf.shape(x)[1:3]]
        with tf.control_dependencies([tf.numpy_function(check, given, labels.dtype)]):
            x = tf.identity(x)
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)

    return batches.map(look).prefetch(tf.data.AUTOTUNE)
