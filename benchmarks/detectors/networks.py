"""Convolutional heat-map detectors, of one image or of a pyramid, with points to decode."""

from typing import Any

import keras
import tensorflow as tf

from gdn_keras.layers import ScaleBatchNormalization
from gdn_keras.scale_space import PointGrid
from gdn_keras.training.detection_task import DetectionRecipe

STRIDE = 4  # pixels of a level from point to point
_POOLED = (0, 2)  # layers followed by 2×2 pooling
_FIRST_LOGIT = -3.0


def plain_network(
    recipe: DetectionRecipe,
    scales: tuple[float, ...],
    num_classes: int,
    channels: int,
    border: float = 0.0,
) -> keras.Model:
    """(a) The image as it is; size by regression of width and height at the maxima."""
    del scales, border
    return _network(recipe, (1.0,), (num_classes, num_classes + 4), channels)


def pyramid_network(
    recipe: DetectionRecipe,
    scales: tuple[float, ...],
    num_classes: int,
    channels: int,
    border: float = 0.0,
) -> keras.Model:
    """(b) The same network at each level of an image pyramid; size by scale, as ours."""
    del border
    return _network(recipe, scales, (num_classes, num_classes + 4), channels)


def _network(
    recipe: DetectionRecipe, scales: tuple[float, ...], features: tuple[int, int], channels: int
) -> keras.Model:
    images = keras.Input((None, None, channels))
    points = PyramidPoints(recipe.widths, *features, scales, name="points")(images)
    return keras.Model(images, points)


@keras.saving.register_keras_serializable(package="gdn_keras_benchmarks")
class PyramidPoints(keras.layers.Layer):
    """3×3 convolutions with shared weights on images resized by 1 / scale, and their points.

    Batch normalisation is joint over the levels, as in our network, so that what is compared is how
    scale is handled and nothing else.

    Args:
        widths: Feature channels of the layers before the last.
        classes: Number of classes.
        features: Feature channels of the last layer: one for each class, or four more for boxes.
        scales: Of the levels: the image is resized by 1 / scale about its centre.
    """

    def __init__(
        self,
        widths: tuple[int, ...],
        classes: int,
        features: int,
        scales: tuple[float, ...],
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.widths, self.scales = list(widths), list(scales)
        self.classes, self.features = classes, features
        self.convolutions = [
            keras.layers.Conv2D(width, 3, padding="same", use_bias=False) for width in widths
        ]
        self.normalizations = [ScaleBatchNormalization() for _ in widths]
        self.last = keras.layers.Conv2D(features, 3, padding="same")

    def build(self, input_shape: tuple) -> None:
        channels = input_shape[-1]
        for convolution, normalization in zip(self.convolutions, self.normalizations, strict=True):
            convolution.build((None, None, None, channels))
            channels = convolution.filters
            normalization.build((None, None, None, channels))
        self.last.build((None, None, None, channels))
        # As in our network, the first answer is "nothing here"; boxes begin at the usual size.
        logits = [_FIRST_LOGIT] * self.classes + [0.0] * (self.features - self.classes)
        self.last.bias.assign(logits)

    def point_grids(self, shape: tuple[Any, Any]) -> tuple[PointGrid, ...]:
        """As `ScaleChannels` has them."""
        return tuple(
            PointGrid(scale, STRIDE * scale, *(_points(n, scale) for n in shape))
            for scale in self.scales
        )

    def call(self, images: Any, training: bool | None = None) -> Any:
        states = [tf.cast(self._level(images, scale), images.dtype) for scale in self.scales]
        for k, convolution in enumerate(self.convolutions):
            normalization = self.normalizations[k]
            if training:
                states = normalization([convolution(x) for x in states], training=True)
            else:  # as in our network, normalization costs nothing in use
                factor, offset = normalization.affine()
                kernel = tf.cast(convolution.kernel * factor, images.dtype)
                offset = tf.cast(offset, images.dtype)
                states = [tf.nn.conv2d(x, kernel, 1, "SAME") + offset for x in states]
            states = [tf.nn.relu(x) for x in states]
            if k in _POOLED:
                states = [tf.nn.max_pool2d(x, 2, 2, "VALID") for x in states]
        points = [tf.reshape(self.last(x), (tf.shape(x)[0], -1, self.features)) for x in states]
        return tf.concat(points, axis=1)

    def _level(self, images: Any, scale: float) -> Any:
        shape = tf.shape(images)[1:3]
        size = tf.stack([STRIDE * _points(shape[k], scale) for k in range(2)])
        # The centre stays where it is, and the resizing is exact, whatever is cut off.
        shift = (tf.cast(size, "float32") - tf.cast(shape, "float32") / scale) / 2
        return tf.raw_ops.ScaleAndTranslate(
            images=images,
            size=size,
            scale=tf.fill([2], tf.cast(1 / scale, "float32")),
            translation=shift,
            kernel_type="triangle",
            antialias=True,
        )

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], None, self.features)

    def get_config(self) -> dict[str, Any]:
        names = ("widths", "classes", "features", "scales")
        own = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **own}


def _points(length: Any, scale: float) -> Any:
    """Points along an image of this length: as many whole strides as it has."""
    if isinstance(length, int):
        return max(1, int(length / (STRIDE * scale) + 1e-6))
    count = tf.cast(length, "float32") / (STRIDE * scale) + 1e-6
    return tf.maximum(1, tf.cast(count, "int32"))
