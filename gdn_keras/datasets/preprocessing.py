"""From raw pixels to what a network takes, as layers that travel with the network."""

from typing import Any

import keras
from keras import ops

from gdn_keras.datasets.contrast import arctan_contrast


class PixelPreprocessing(keras.Layer):
    """Base of layers that treat integers as raw pixels, and leave floats as they are.

    So one network takes what a camera gives and what a pipeline has prepared. It is the type that
    tells: a `keras.Input` of floats in front of the layer turns all pixels into prepared ones.
    """

    def call(self, images: Any) -> Any:
        is_raw = "int" in keras.backend.standardize_dtype(images.dtype)
        images = ops.cast(images, self.compute_dtype)
        return self.from_pixels(images) if is_raw else images

    def from_pixels(self, images: Any) -> Any:
        """What becomes of raw pixels, given as floats from 0 to 255."""
        raise NotImplementedError  # each layer has its own

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def compute_output_spec(self, images: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor(images.shape, dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="gdn_keras")
class ArctanContrast(PixelPreprocessing):
    """The contrast of MNIST Large Scale, for raw pixels.

    Each image is scaled so that its maximum is 255, and then `(2 / pi) arctan(0.02 (I - 128))`
    brings its values to [-0.764, 0.761].

    Example:

    >>> ArctanContrast()(np.array([[[[0], [51]]]], "uint8"))  # doctest: +SKIP
    [[[[-0.7637], [0.7609]]]]

    Call arguments:
        images: `[n, height, width, channels]`; integers are stretched, floats are returned as they
            are, in the layer's compute dtype.
    """

    def from_pixels(self, images: Any) -> Any:
        # Without a value to start from, a batch of no images has no maximum on TensorFlow.
        peak = ops.max(images, axis=(1, 2, 3), keepdims=True, initial=0)
        return arctan_contrast(images, peak, ops)


@keras.saving.register_keras_serializable(package="gdn_keras")
class PixelScaling(PixelPreprocessing):
    """Raw pixels from 0 to 255 brought linearly to `[low, high]`.

    Args:
        low: What 0 becomes.
        high: What 255 becomes.
        **kwargs: Of `keras.Layer`, such as `name` and `dtype`.

    Call arguments:
        images: `[n, height, width, channels]`; integers are scaled, floats are returned as they
            are, in the layer's compute dtype.
    """

    def __init__(self, low: float = -1.0, high: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not low < high:
            raise ValueError(f"`low` must be less than `high`. Received: low={low}, high={high}")
        self.low = low
        self.high = high

    def from_pixels(self, images: Any) -> Any:
        return images * ((self.high - self.low) / 255) + self.low

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "low": self.low, "high": self.high}
