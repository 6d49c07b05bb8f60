"""A detector that is trained at one size and finds objects at others."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from gdn_keras.checks import check_choice, check_integer, check_positive, check_share, require
from gdn_keras.detection import targets
from gdn_keras.detection.decoding import channel_spacing, decode_points
from gdn_keras.detection.input_checks import (
    TargetChecker,
    as_batch,
    by_shape,
    check_shapes,
    checked_images,
    checked_targets,
    dense_targets,
)
from gdn_keras.models.image_model import PackedNetwork, check_names
from gdn_keras.scale_space import PointGrid

_CORNERS = ("xyxy", "yxyx", "xywh", "center_xywh")
BOX_FORMATS = (*_CORNERS, "center_yxhw", *(f"rel_{name}" for name in _CORNERS))

# Of the losses of boxes, beside that of heat. Chosen on validation digits and nuclei.
_BOX_WEIGHT, _OVERLAP_WEIGHT = 4.0, 2.0

_ANY_SIDE = 64  # of images, where a network takes all: its channels are the same for each

_DECODING = (
    "num_classes", "extent", "per_octave",
    "confidence_threshold", "iou_threshold", "part_threshold", "max_detections",
)  # fmt: skip


@keras.saving.register_keras_serializable(package="gdn_keras")
class Detector(PackedNetwork):
    """Finds what, where and how large: scale-space maxima of a network's scores at points.

    The network scores each class at the points of its scale channels. It learns a blob of heat for
    each object, at the object's place and at the scale of its size, in units of each channel's own
    grid (`gdn_keras.detection.targets`). What it learns at one size therefore holds at all sizes
    that its channels cover.

    Example:

    >>> network = gdn_keras.models.gaussian_derivative_network(
    ...     (None, None, 1), num_classes=10, scales=[0.5, 0.71, 1, 1.41, 2], readout="points"
    ... )
    >>> detector = Detector(network, num_classes=10, preprocessor=ArctanContrast(stretch=False))
    >>> detector.compile("adam")
    >>> scenes = gdn_keras.datasets.digit_scenes("train", sizes=[1.0])
    >>> detector.fit(gdn_keras.datasets.scene_pipeline(scenes), steps_per_epoch=100)
    >>> found = detector.predict(images)
    >>> found["boxes"], found["labels"], found["confidence"], found["size"]

    Args:
        network: Model from images to `[batch, points, features]`: logits of the classes, and four
            more numbers where boxes are regressed and need not be square. One of its layers has a
            method `point_grids((height, width))` that gives a `PointGrid` for each channel, in the
            order of the points.
        num_classes: Number of classes.
        extent: Longer side of an object of size 1, in pixels: what the channel of sigma_0 = 1
            responds to. 20 is a digit of MNIST.
        per_octave: How many scale channels an octave has, 1 or 2. With 1, each channel answers for
            half an octave to either side: a third of the arithmetic, for less exact boxes.
        preprocessor: Layer from pixels of 0 to 255 to what the network takes. The detector then
            takes such pixels, of any dtype; without one, images that its user prepared.
        bounding_box_format: Of boxes in training and in predictions, as in
            `keras.utils.bounding_boxes`.
        confidence_threshold: Least confidence of a detection.
        iou_threshold: Greatest overlap, intersection over union, of two detections.
        part_threshold: Greatest share of a detection that lies in one of higher confidence. Below
            1, what is found inside an object is a part of it: for objects that do not stand in
            front of one another.
        max_detections: Greatest number of detections in an image.
        class_names: Names of the classes, which travel with the model; their numbers by default.
        **kwargs: Passed to `keras.Model`.

    The model itself gives `[batch, points, features]` for images `[batch, height, width,
    channels]`, and `predict` a dictionary of boxes, see `decode_points`.
    """

    def __init__(
        self,
        network: keras.Model,
        num_classes: int,
        *,
        extent: float = 20.0,
        per_octave: int = 2,
        preprocessor: keras.layers.Layer | None = None,
        bounding_box_format: str = "xyxy",
        confidence_threshold: float = 0.3,
        iou_threshold: float = 0.4,
        part_threshold: float = 1.0,
        max_detections: int = 100,
        class_names: Sequence[str] | None = None,
        **kwargs: Any,
    ):
        super().__init__(network, preprocessor, **kwargs)
        self.supports_jit = keras.backend.backend() != "tensorflow"  # XLA must know image sizes
        self.num_classes = check_integer("num_classes", num_classes)
        self.extent = check_positive("extent", extent)
        self.per_octave = check_choice("per_octave", per_octave, (1, 2))
        box_format = str(bounding_box_format).lower()
        self.bounding_box_format = check_choice("bounding_box_format", box_format, BOX_FORMATS)
        self.confidence_threshold = check_share("confidence_threshold", confidence_threshold)
        self.iou_threshold = check_share("iou_threshold", iou_threshold)
        self.part_threshold = check_share("part_threshold", part_threshold)
        self.max_detections = check_integer("max_detections", max_detections)
        self.class_names = check_names(class_names, self.num_classes)
        self._channels = layer_with_grids(network)
        self.features = network.output_shape[-1]
        if self.features not in (num_classes, num_classes + 4):
            raise ValueError(
                f"`network` must give {num_classes} features at each point, one for each class, or "
                f"four more for boxes. Received: network.output_shape={network.output_shape}"
            )
        shape = [side or _ANY_SIDE for side in network.input_shape[1:3]]
        self._scales = tuple(float(grid.scale) for grid in self._channels.point_grids(shape))
        if len(self._scales) > 1:  # checked now, not after a training
            channel_spacing(self._scales)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        channels = self.network.input_shape[-1]
        if len(inputs.shape) != 4 or inputs.shape[-1] != channels:
            raise ValueError(
                f"Images must have shape [batch, height, width, channels], with {channels} as the "
                f"last. Received: shape {tuple(inputs.shape)}"
            )
        return super().call(ops.cast(inputs, self.compute_dtype), training)

    def point_grids(self, images: Any) -> tuple[tuple[PointGrid, ...], tuple[Any, Any]]:
        """The grids of the channels for these images, and the images' height and width."""
        _, height, width, _ = ops.shape(images)
        return self._channels.point_grids((height, width)), (height, width)

    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, **kwargs: Any) -> None:
        """As for any Keras model, but without metrics or a loss: a detector has its own."""
        names = ("loss_weights", "metrics", "weighted_metrics")
        text = "be left out: a detector has its own loss; `evaluate_detector` measures precision"
        for name, value in {"loss": loss, **{n: kwargs.pop(n, None) for n in names}}.items():
            require(value is None, name, text, value)
        super().compile(optimizer, **kwargs)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles a detector from a file, with the state of its optimizer."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def fit(
        self, x: Any = None, y: Any = None, *, validation_data: Any = None, **kwargs: Any
    ) -> keras.callbacks.History:
        """As for any Keras model; boxes and labels are checked, of pipelines as they come.

        Boxes of a size that no scale channel answers for would be trained as background: it is an
        error if most are such, and a warning if some are.
        """
        checkers = [self._checker()]
        x = self._checked(x, y, checkers[0])
        if validation_data is not None:
            checkers.append(self._checker())
            images, truth, weights = keras.utils.unpack_x_y_sample_weight(validation_data)
            images = self._checked(images, truth, checkers[1])
            validation_data = keras.utils.pack_x_y_sample_weight(images, truth, weights)

        def conclude(epoch: int, logs: Any) -> None:
            for checker in checkers:
                checker.conclude()

        callbacks: Any = kwargs.pop("callbacks", None) or []
        conclusion = keras.callbacks.LambdaCallback(on_epoch_end=conclude)
        if isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks.callbacks.append(conclusion)
        else:
            callbacks = [*keras.tree.flatten(callbacks), conclusion]
        kwargs |= {"callbacks": callbacks, "validation_data": validation_data}
        with _in_own_words(checkers):
            return super().fit(x, y, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As for any Keras model; boxes and labels are checked as in `fit`."""
        # Keras validates with the callbacks of a training, on what `fit` has checked.
        if isinstance(kwargs.get("callbacks"), keras.callbacks.CallbackList):
            return super().evaluate(x, y, *args, **kwargs)
        checker = self._checker()
        x = self._checked(x, y, checker)
        with _in_own_words([checker]):
            result = super().evaluate(x, y, *args, **kwargs)
        checker.conclude()
        return result

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        """As for any Keras model, with at least one image; a list may hold images of any sizes.

        Results are in the order of the list, boxes in the pixels of each image.
        """
        if not isinstance(x, list | tuple):
            return super().predict(self._images(x), *args, **kwargs)
        groups = by_shape(x)
        parts = [
            super(Detector, self).predict(self._images(images), *args, **kwargs)
            for images in groups.values()
        ]
        order = np.argsort([k for places in groups for k in places])
        return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}

    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As for any Keras model; boxes and labels are checked."""
        x = self._images(as_batch(x))
        self._checker().check_batch(x, y)
        return super().train_on_batch(x, y, *args, **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As for any Keras model; boxes and labels are checked."""
        x = self._images(as_batch(x))
        self._checker().check_batch(x, y)
        return super().test_on_batch(x, y, *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        """As for any Keras model; images are checked."""
        return super().predict_on_batch(self._images(as_batch(x)))

    def _images(self, x: Any) -> Any:
        """What a user gives as images, checked."""
        return checked_images(x, self.network.input_shape[-1], self.takes_pixels)

    def _checker(self) -> TargetChecker:
        low, high = self.size_range
        more = 2 ** (0.5 / self.per_octave) * 1.01  # up to a whole channel beyond the last one
        sides = (low / more, high * more) if len(self._scales) > 1 else (0.0, math.inf)
        return TargetChecker(self.bounding_box_format, self.num_classes, sides)

    def _checked(self, x: Any, y: Any, checker: TargetChecker) -> Any:
        """Images or a pipeline of them, with their boxes and labels checked."""
        return checked_targets(self._images(as_batch(x)), y, checker)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, **_: Any
    ) -> Any:
        """The loss of the heat per object, and that of boxes where they are regressed.

        `y` holds "boxes" `[batch, objects, 4]` and "labels" `[batch, objects]`, either padded with
        labels of -1, or ragged; `y_pred` are the features at the points.
        """
        if sample_weight is not None:
            raise ValueError("A detector takes no sample weights. Received: `sample_weight`")
        grids, shape = self.point_grids(x)
        boxes, labels = self._boxes_and_labels(y, shape)
        points, sizes = targets.grid_points(grids, shape), (self.extent, self.per_octave)
        distance = targets.object_distance(points, boxes, *sizes, any_size=len(grids) == 1)
        heat, counted = targets.object_heat(distance, labels)
        inside = targets.in_image(points, shape)
        nearest, counted = ops.max(heat, axis=-1) * inside, counted * inside
        objects = ops.sum(ops.cast(labels >= 0, "float32"))
        counts = targets.sum_over_replicas(ops.stack([objects, ops.sum(nearest)]))
        objects, total_heat = ops.unstack(ops.maximum(counts, 1.0))
        y_pred = ops.cast(y_pred, "float32")
        expected = targets.class_heat(heat, labels, self.num_classes)
        logits, said = y_pred[..., : self.num_classes], y_pred[..., self.num_classes :]
        loss = targets.heat_loss(expected, logits, counted) / objects
        if self.features > self.num_classes:
            seen = targets.box_targets(points, heat, boxes, self.extent)
            unit = points.step / (self.extent * points.scale)
            errors = _BOX_WEIGHT * targets.box_loss(seen, said, nearest)
            errors += _OVERLAP_WEIGHT * targets.overlap_loss(seen, said, nearest, unit)
            loss += errors / total_heat
        if self.losses:  # of regularizers and of `add_loss`
            loss += super().compute_loss(x, y, y_pred)
        return targets.spread_over_replicas(loss)

    def _boxes_and_labels(self, y: Any, shape: tuple[Any, Any]) -> tuple[Any, Any]:
        """Padded boxes (x1, y1, x2, y2) and labels, with at least one entry of padding."""
        boxes, labels = map(ops.convert_to_tensor, dense_targets(y))
        check_shapes(boxes, labels)
        boxes = converted_boxes(boxes, self.bounding_box_format, "xyxy", shape)
        boxes, labels = ops.cast(boxes, "float32"), ops.cast(labels, "int32")
        # Nothing is known of the boxes of padding, not even that they are numbers.
        boxes = ops.where(labels[..., None] != -1, boxes, 0.0)
        # A batch without any object would leave nothing to take the maximum of.
        boxes = ops.pad(boxes, ((0, 0), (0, 1), (0, 0)))
        return boxes, ops.pad(labels, ((0, 0), (0, 1)), constant_values=-1)

    def decode_predictions(self, predictions: Any, images: Any) -> dict[str, Any]:
        """The objects in images, given the features at their points; see `decode_points`."""
        grids, shape = self.point_grids(images)
        options = {name: getattr(self, name) for name in _DECODING}
        found = decode_points(predictions, grids, shape, **options)
        boxes = converted_boxes(found["boxes"], "xyxy", self.bounding_box_format, shape)
        is_found = ops.expand_dims(found["labels"] >= 0, -1)
        return {**found, "boxes": ops.where(is_found, boxes, -1.0)}

    def detect(self, images: Any) -> dict[str, Any]:
        """The objects in one tensor of images: `predict` for graphs, such as that of an export."""
        return self.decode_predictions(self(images, training=False), images)

    def predict_step(self, *args: Any) -> Any:
        # JAX passes its state along: (state, data) -> (outputs, state).
        outputs = super().predict_step(*args)
        images, _, _ = keras.utils.unpack_x_y_sample_weight(args[-1])
        if isinstance(outputs, tuple):
            return self.decode_predictions(outputs[0], images), *outputs[1:]
        return self.decode_predictions(outputs, images)

    @property
    def size_range(self) -> tuple[float, float]:
        """Longer sides of the objects that the scale channels answer for, in pixels."""
        beyond = 2 ** (1 / (2 * self.per_octave))
        return self.extent * self._scales[0] / beyond, self.extent * self._scales[-1] * beyond

    def with_thresholds(self, **arguments: Any) -> "Detector":
        """A detector with other arguments, such as thresholds, that shares this network.

        >>> detector.with_thresholds(confidence_threshold=0.05).predict(images)  # doctest: +SKIP
        """
        return type(self)(**{**self._arguments(), **arguments})

    def _arguments(self) -> dict[str, Any]:
        names = ("network", "preprocessor", "bounding_box_format", "class_names", *_DECODING)
        return {name: getattr(self, name) for name in names}

    def get_config(self) -> dict[str, Any]:
        return {**self._arguments(), **super().get_config()}


@contextlib.contextmanager
def _in_own_words(checkers: Sequence[TargetChecker]) -> Iterator[None]:
    """Raises an error of a checker in its own words, not in those of a pipeline."""
    try:
        yield
    except Exception:
        for checker in checkers:
            if checker.error is not None:
                raise checker.error from None
        raise


def layer_with_grids(network: keras.Model) -> keras.layers.Layer:
    """The layer that gives a network's points."""
    layers = network.layers if isinstance(network, keras.Model) else ()
    found = [layer for layer in layers if hasattr(layer, "point_grids")]
    text = "be a Keras model with a layer that has a method `point_grids`, such as "
    require(found, "network", f'{text}gaussian_derivative_network(readout="points")', network)
    return found[0]


def converted_boxes(boxes: Any, source: str, target: str, shape: Sequence[Any]) -> Any:
    """Boxes in another format, for images of a height and width."""
    if source == target:
        return boxes
    options = {"source": source, "target": target, "height": shape[0], "width": shape[1]}
    return keras.utils.bounding_boxes.convert_format(boxes, **options)
