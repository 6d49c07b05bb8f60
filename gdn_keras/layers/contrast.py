"""The contrast of pictures: that of MNIST Large Scale, and that of each image's own range."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

_GAIN, _MIDPOINT, _PEAK = 0.02, 128.0, 255.0
_SAMPLE = 2**14  # pixels of an image that are looked at: enough for two percentiles, and fast


@keras.saving.register_keras_serializable(package="gdn_keras")
class ArctanContrast(keras.layers.Layer):
    """A soft threshold of pixels I from 0 to 255, (2 / pi) arctan(0.02 (I - 128)).

    Example:

    >>> np.asarray(gdn_keras.layers.ArctanContrast()(np.array([[[[0], [51]]]], "uint8"))).round(3)
    array([[[[-0.764], [0.761]]]], dtype=float32)

    Args:
        stretch: Whether each image is first scaled so that its maximum is 255. For pictures of one
            object; in a scene, what one object looks like should not depend on another.
        **kwargs: Passed to `keras.layers.Layer`.

    Call arguments:
        images: Pixels [batch, height, width, channels] of 0 to 255, integers or floats.
    """

    def __init__(self, stretch: bool = True, **kwargs: Any):
        # Half precision would round what the threshold is about to tell apart.
        super().__init__(**{"dtype": "float32", **kwargs})
        self.stretch = bool(stretch)

    def call(self, images: Any) -> Any:
        pixels = ops.cast(images, self.compute_dtype)
        if self.stretch:
            # Without a value to start from, a batch of no images has no maximum on TensorFlow.
            peak = ops.max(pixels, axis=(1, 2, 3), keepdims=True, initial=0)
            pixels = pixels * (_PEAK / ops.where(peak > 0, peak, 1.0))
        steps = _GAIN * (pixels - _MIDPOINT)
        # LiteRT knows the arctangent of two arguments only.
        return (2 / math.pi) * ops.arctan2(steps, ops.ones_like(steps))

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "stretch": self.stretch}


@keras.saving.register_keras_serializable(package="gdn_keras")
class ContrastStretch(keras.layers.Layer):
    """Brings two percentiles of each image to -1 and 1, and cuts off what lies beyond.

    For pictures whose brightness differs by a lot, such as those of fluorescence microscopes. The
    percentiles hardly depend on the resolution of an image, so that scale covariance remains.

    Example:

    >>> image = np.linspace(0, 10, 64 * 64).reshape(1, 64, 64, 1)
    >>> np.asarray(gdn_keras.layers.ContrastStretch(0, 100)(image)).max().round(2)
    1.0

    Args:
        low, high: Percentiles, 0 <= low < high <= 100.
        **kwargs: Passed to `keras.layers.Layer`.

    Call arguments:
        images: Pixels [batch, height, width, channels], integers or floats.
    """

    def __init__(self, low: float = 1.0, high: float = 99.8, **kwargs: Any):
        super().__init__(**{"dtype": "float32", **kwargs})
        if not 0 <= low < high <= 100:
            text = "`low` and `high` must be percentiles in increasing order"
            raise ValueError(f"{text}. Received: low={low!r}, high={high!r}")
        self.low, self.high = float(low), float(high)

    def call(self, images: Any) -> Any:
        return self._stretched(images, *self._limits(images))

    def fixed(self, image: Any) -> Callable[[Any], Any]:
        """The function that stretches parts of an image as this layer does the whole of it."""
        limits = self._limits(image)
        return lambda images: self._stretched(images, *limits)

    def _limits(self, images: Any) -> tuple[Any, Any]:
        height, width = ops.shape(images)[1:3]
        if isinstance(height, int) and isinstance(width, int):
            stride = max(1, math.isqrt(height * width // _SAMPLE))
        else:  # in a graph of unknown image size
            area = ops.cast(height, "float32") * ops.cast(width, "float32")
            stride = ops.maximum(1, ops.cast(ops.sqrt(area / _SAMPLE), "int32"))
        rows, columns = ops.arange(0, height, stride), ops.arange(0, width, stride)
        sample = ops.take(ops.take(images, rows, axis=1), columns, axis=2)
        count = ops.shape(rows)[0] * ops.shape(columns)[0] * images.shape[-1]
        pixels = ops.cast(ops.reshape(sample, (-1, count)), self.compute_dtype)
        ordered, last = ops.sort(pixels, axis=1), ops.cast(count - 1, "float32")
        places = (ops.cast(ops.round(x / 100 * last), "int32") for x in (self.low, self.high))
        low, high = (ops.take(ordered, place, axis=1)[:, None, None, None] for place in places)
        return low, high

    def _stretched(self, images: Any, low: Any, high: Any) -> Any:
        pixels = ops.cast(images, self.compute_dtype)
        return ops.clip(2 * (pixels - low) / ops.maximum(high - low, 1e-6) - 1, -1.0, 1.0)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "low": self.low, "high": self.high}
