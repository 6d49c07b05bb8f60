"""Gaussian smoothing as a Keras layer."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from gdn_keras.checks import check_boundary, check_non_negative, check_positive, check_truncation
from gdn_keras.layers._channels import Channels
from gdn_keras.layers._sampling import pays_to_jit, smooth_depthwise
from gdn_keras.layers._validation import check_fixed, check_image_shape
from gdn_keras.scale_space import DEFAULT_TRUNCATION, Node


@keras.saving.register_keras_serializable(package="gdn_keras")
class GaussianSmoothing(keras.layers.Layer):
    """Smooths images with the discrete analogue of the Gaussian, `T(n; s) = e^{-s} I_n(s)`.

    L(x, y; sigma) = (g(., .; sigma) * f)(x, y), eq. (def-sc-sp) of the paper, separably and for
    each feature channel on its own. There are no weights.

    Example:

    >>> layer = gdn_keras.layers.GaussianSmoothing(sigma=2.0)
    >>> layer(np.random.rand(1, 28, 28, 3)).shape
    (1, 28, 28, 3)

    Args:
        sigma: Standard deviation in pixels, >= 0. 0 is the identity.
        boundary: What the image is taken to be beyond its edges: "symmetric" (mirrored, the edge
            pixel repeated), "edge" (the edge pixel) or "constant" (zero).
        truncation: Bound on the mass of the kernel that is cut off before it is normalised.
        **kwargs: Passed to `keras.layers.Layer`.

    Call arguments:
        inputs: Images [batch, height, width, channels].
        scale: Factor on `sigma` for this call.

    Output shape:
        The shape of the inputs.
    """

    def __init__(
        self,
        sigma: float,
        boundary: str = "symmetric",
        truncation: float = DEFAULT_TRUNCATION,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_jit = pays_to_jit()
        self.sigma = check_non_negative("sigma", check_fixed("sigma", sigma))
        self.boundary = check_boundary(boundary)
        self.truncation = check_truncation(truncation)

    def build(self, input_shape: Sequence[int | None]) -> None:
        check_image_shape(self, input_shape)
        self.built = True

    def call(self, inputs: Any, scale: float = 1.0) -> Any:
        check_image_shape(self, inputs.shape)
        inputs = ops.cast(inputs, self.compute_dtype)  # Keras leaves integers as they are
        sigma = self.sigma * check_positive("scale", scale)
        return smooth_depthwise(inputs, sigma, 0, self.boundary, self.truncation)

    def node(self, inputs: tuple[int, ...]) -> Node:
        """A tensor smoothed to sigma sigma_0, on a grid matched to it, for `ScaleChannels`."""
        return Node(inputs, check_positive("sigma", self.sigma))

    def run_channels(self, inputs: Channels, number: int, training: bool | None) -> Channels:
        """The layer in all matched scale channels."""
        return inputs.map(lambda x: ops.cast(x, self.compute_dtype)).onto(number)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "sigma": self.sigma,
            "boundary": self.boundary,
            "truncation": self.truncation,
        }
