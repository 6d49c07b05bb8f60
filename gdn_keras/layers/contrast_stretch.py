"""Contrast by each image's own darkest and brightest pixels."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

# Pixels of an image that are looked at: enough for two percentiles, and fast.
_SAMPLE = 2**14


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

    Output shape:
        The same, floats from -1 to 1.
    """

    def __init__(self, low: float = 1.0, high: float = 99.8, **kwargs: Any):
        super().__init__(**{"dtype": "float32", **kwargs})
        if not 0 <= low < high <= 100:
            raise ValueError(
                "`low` and `high` must be percentiles in increasing order. "
                f"Received: low={low!r}, high={high!r}"
            )
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
        low, high = (
            ops.take(ordered, ops.cast(ops.round(share / 100 * last), "int32"), axis=1)
            for share in (self.low, self.high)
        )
        return low[:, None, None, None], high[:, None, None, None]

    def _stretched(self, images: Any, low: Any, high: Any) -> Any:
        pixels = ops.cast(images, self.compute_dtype)
        return ops.clip(2 * (pixels - low) / ops.maximum(high - low, 1e-6) - 1, -1.0, 1.0)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "low": self.low, "high": self.high}
