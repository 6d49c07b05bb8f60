"""The contrast of MNIST Large Scale as a Keras layer."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

_GAIN, _MIDPOINT, _PEAK = 0.02, 128.0, 255.0


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

    Output shape:
        The same, floats from -0.764 to 0.761.
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
