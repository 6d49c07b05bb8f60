"""The first layer of a network that takes raw pixels."""

import math
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="gdn_keras")
class RawPixels(keras.layers.Layer):
    """Prepares raw pixels, and leaves images that are prepared already as they are.

    A Keras model turns all its inputs into floats before its first layer sees them, so the type
    cannot tell pixels from prepared images. Their values do: prepared images lie in [-1, 1], and an
    image with a value above 1 is taken for pixels of 0 to 255, rounded to whole ones.

    Example:

    >>> layer = RawPixels(keras.layers.Rescaling(1 / 255))
    >>> layer(np.array([[[[0], [51]]]], "uint8"))  # doctest: +SKIP
    [[[[0.0], [0.2]]]]

    Args:
        preprocessing: Layer from integer pixels to what the network takes.
        **kwargs: Of `keras.layers.Layer`.

    Call arguments:
        images: [batch, height, width, channels], of any type.
    """

    def __init__(self, preprocessing: keras.layers.Layer, **kwargs: Any):
        super().__init__(**{"dtype": "float32", **kwargs})
        if not isinstance(preprocessing, keras.layers.Layer):
            raise ValueError(
                f"`preprocessing` must be a Keras layer. Received: preprocessing={preprocessing!r}"
            )
        self.preprocessing = preprocessing

    def call(self, images: Any) -> Any:
        images = ops.cast(images, self.compute_dtype)
        pixels = ops.cast(ops.round(images), "int32")
        prepared = ops.cast(self.preprocessing(pixels), self.compute_dtype)
        largest = ops.max(images, axis=(1, 2, 3), keepdims=True, initial=-math.inf)
        # NaN fails the comparison, so that such an image spoils its own scores only.
        return ops.where(ops.greater(largest, 1.0 + 1e-3), prepared, images)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        preprocessing = keras.saving.serialize_keras_object(self.preprocessing)
        return {**super().get_config(), "preprocessing": preprocessing}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "RawPixels":
        preprocessing = keras.saving.deserialize_keras_object(config["preprocessing"])
        return cls(**{**config, "preprocessing": preprocessing})
