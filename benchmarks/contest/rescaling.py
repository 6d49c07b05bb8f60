"""What plain CNNs do about size: training images of all sizes, or an image pyramid."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from contest.tensorflow_steps import plain_cnn
from gdn_keras.datasets import resampling_matrix
from gdn_keras.datasets.transform import shrink_smoothing

_FIRST_LOGIT = -3.0  # as in `gaussian_derivative_network`: at first, all levels see nothing


def rescaling_matrices(
    side: int, window: int, factors: Sequence[float], boundary: str
) -> np.ndarray:
    """`[factors, window, side]`: each rescales a signal about its centre, smoothed if it shrinks.

    Args:
        side: Length of the signal.
        window: Length of the result.
        factors: By which everything grows.
        boundary: What lies beyond the signal, as in `rescale_images`.
    """
    matrices = [
        resampling_matrix(side, window, factor, shrink_smoothing(factor), boundary)
        for factor in factors
    ]
    return np.stack(matrices).astype("float32")


def random_rescaling(side: int, factors: Sequence[float], boundary: str) -> Callable:
    """A function of images `[n, side, side, channels]` and a seed: each by one of the factors."""
    matrices = tf.constant(rescaling_matrices(side, side, factors, boundary))

    def rescale(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        count = tf.shape(images)[0]
        seeds = tf.stack([seed, tf.zeros_like(seed)])
        chosen = tf.random.stateless_uniform([count], seeds, 0, len(factors), "int32")
        chosen = tf.gather(matrices, chosen)
        rescaled = tf.einsum("nHh,nhwc,nWw->nHWc", chosen, images, chosen, optimize="optimal")
        # Splines overshoot.
        ends = tf.reduce_min(images), tf.reduce_max(images)
        return tf.ensure_shape(tf.clip_by_value(rescaled, *ends), images.shape)

    return rescale


class PyramidLevels(keras.layers.Layer):
    """The middle of each image at several resolutions: `[n * levels, window, window, channels]`.

    Args:
        factors: By which each level enlarges the image.
        window: Height and width of all levels.
        boundary: What lies beyond the image, where a level reaches further.
        **kwargs: Of `keras.layers.Layer`.
    """

    def __init__(self, factors: Sequence[float], window: int, boundary: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factors, self.window, self.boundary = tuple(factors), window, boundary

    def build(self, input_shape: Sequence[int]) -> None:
        self.matrices = rescaling_matrices(input_shape[1], self.window, self.factors, self.boundary)

    def call(self, images: Any) -> Any:
        rows = ops.einsum("lHh,nhwc->nlHwc", self.matrices, images)
        levels = ops.einsum("nlHwc,lWw->nlHWc", rows, self.matrices)
        return ops.reshape(levels, (-1, self.window, self.window, images.shape[-1]))

    def compute_output_shape(self, input_shape: Sequence[int]) -> tuple[int | None, ...]:
        return (None, self.window, self.window, input_shape[-1])

    def get_config(self) -> dict[str, Any]:
        own = {"factors": self.factors, "window": self.window, "boundary": self.boundary}
        return {**super().get_config(), **own}


class MaxOverLevels(keras.layers.Layer):
    """The highest score of each class: `[n * levels, classes]` to `[n, classes]`."""

    def __init__(self, levels: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.levels = levels

    def call(self, scores: Any) -> Any:
        return ops.max(ops.reshape(scores, (-1, self.levels, scores.shape[-1])), axis=1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "levels": self.levels}


def pyramid_cnn(
    shape: Sequence[int],
    widths: Sequence[int],
    factors: Sequence[float],
    window: int,
    boundary: str,
    head: str = "average",
    dropout: float = 0.0,
) -> keras.Model:
    """`plain_cnn` on each level of a pyramid, with the same weights, and the maximum over levels.

    Args:
        shape: Of the images.
        widths, head, dropout: As for `plain_cnn`.
        factors, window, boundary: As for `PyramidLevels`.
    """
    images = keras.Input(shape)
    cnn = plain_cnn((window, window, shape[-1]), widths, head, dropout)
    cnn.layers[-1].bias.assign(np.full(widths[-1], _FIRST_LOGIT))
    scores = cnn(PyramidLevels(factors, window, boundary)(images))
    return keras.Model(images, MaxOverLevels(len(factors))(scores))
