"""Gaussian smoothing and the linearly combined Gaussian jet as Keras layers."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from gdn_keras.checks import (
    check_boundary,
    check_choice,
    check_image_shape,
    check_integer,
    check_non_negative,
    check_order,
    check_positive,
    check_truncation,
    require,
)
from gdn_keras.layers._channels import Channels
from gdn_keras.layers._sampling import PAYS_TO_JIT, smooth_depthwise, valid_convolution
from gdn_keras.scale_space import DEFAULT_TRUNCATION, Node, jet_stencils, scale_normalization


def _check_fixed(sigma: Any) -> Any:
    """Raise if sigma is a variable or a tensor."""
    text = "be a number: it is fixed and not learned, because the sampling grids follow it"
    require(not (isinstance(sigma, keras.Variable) or ops.is_tensor(sigma)), "sigma", text, sigma)
    return sigma


@keras.saving.register_keras_serializable(package="gdn_keras")
class GaussianSmoothing(keras.layers.Layer):
    """Smooths images with the discrete analogue of the Gaussian, `T(n; s) = e^{-s} I_n(s)`.

    L(x, y; sigma) = (g(., .; sigma) * f)(x, y)

    This is eq. (def-sc-sp) of the paper, separable and for each feature channel on its own. There
    are no weights.

    Example:

    >>> layer = gdn_keras.layers.GaussianSmoothing(sigma=2.0)
    >>> layer(np.random.rand(1, 28, 28, 3)).shape
    (1, 28, 28, 3)

    Args:
        sigma: Standard deviation in pixels, >= 0. 0 is the identity.
        boundary, truncation: As in `GaussianDerivative`.
        **kwargs: Passed to `keras.layers.Layer`.

    Call arguments:
        inputs: Images [batch, height, width, channels].
        scale: Factor on `sigma` for this call.
    """

    def __init__(
        self,
        sigma: float,
        boundary: str = "symmetric",
        truncation: float = DEFAULT_TRUNCATION,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_jit = PAYS_TO_JIT
        self.sigma = check_non_negative("sigma", _check_fixed(sigma))
        self.boundary = check_boundary(boundary)
        self.truncation = check_truncation(truncation)

    def build(self, input_shape: Sequence[int | None]) -> None:
        check_image_shape(self.name, input_shape)
        self.built = True

    def call(self, inputs: Any, scale: float = 1.0) -> Any:
        check_image_shape(self.name, inputs.shape)
        inputs = ops.cast(inputs, self.compute_dtype)  # Keras leaves integers as they are
        sigma = self.sigma * check_positive("scale", scale)
        return smooth_depthwise(inputs, sigma, 0, self.boundary, self.truncation)

    def node(self, inputs: tuple[int, ...]) -> Node:
        """A tensor smoothed to sigma sigma_0, on a grid matched to it, for `ScaleChannels`."""
        return Node(inputs, check_positive("sigma", self.sigma))

    def run_channels(self, inputs: Channels, number: int, training: bool | None) -> Channels:
        """The layer in all matched scale channels."""
        return inputs.onto(number, self.compute_dtype)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        own = {"sigma": self.sigma, "boundary": self.boundary, "truncation": self.truncation}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable(package="gdn_keras")
class GaussianDerivative(keras.layers.Layer):
    """A learned linear combination of scale-normalized Gaussian derivatives.

    J_{2,sigma}(f) = C_0 + C_x L_xi + C_y L_eta
                     + 1/2 (C_xx L_xixi + 2 C_xy L_xieta + C_yy L_etaeta)

    summed over input channels, eq. (lin-comb-2-jet-with-indices) of the paper, where
    L_xi = sigma L_x and so on are derivatives of the image smoothed to the scale sigma. Use
    it in the place of `Conv2D(filters, ..., padding="same")`. It has 5 weights for each pair of
    channels whatever the scale, and one bias for each output channel (C_0, summed over inputs).

    Derivatives are central differences; they are never stored. With the learned weights they make
    one 3x3 kernel (5x5 for third order), composed in each call and applied to the smoothed image.

    Example:

    >>> layer = gdn_keras.layers.GaussianDerivative(16, sigma=1.0)
    >>> x = np.random.rand(1, 28, 28, 3)
    >>> layer(x).shape, layer(x, scale=2.0).shape  # the same weights, at sigma = 2
    ((1, 28, 28, 16), (1, 28, 28, 16))

    Args:
        filters: Number of output channels.
        sigma: Scale of the derivatives, in pixels, > 0. It is fixed and not learned: the grids that
            `ScaleChannels` samples on follow it.
        order: Highest order of differentiation, 1, 2 (the paper's) or 3.
        zero_order: Add the smoothed image itself as a term.
        boundary: What the image is taken to be beyond its edges: "symmetric" (mirrored, the edge
            pixel repeated), "edge" (the edge pixel) or "constant" (zero).
        truncation: Bound on the mass of the smoothing kernel that is cut off.
        activation: Applied to the result, as in `Conv2D`.
        use_bias: Whether there is an offset C_0.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
        activity_regularizer, kernel_constraint, bias_constraint: As in `Conv2D`.
        **kwargs: Passed to `keras.layers.Layer`.

    Call arguments:
        inputs: Images [batch, height, width, channels].
        scale: Factor on `sigma` for this call; the weights stay the same.

    Reference:
        [Lindeberg, 2022](https://doi.org/10.1007/s10851-021-01057-9), section 4.1.
    """

    def __init__(
        self,
        filters: int,
        sigma: float,
        order: int = 2,
        zero_order: bool = False,
        boundary: str = "symmetric",
        truncation: float = DEFAULT_TRUNCATION,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.supports_jit = PAYS_TO_JIT
        self.filters = check_integer("filters", filters)
        self.sigma = check_positive("sigma", _check_fixed(sigma))
        self.order = check_order(order)
        self.zero_order = check_choice("zero_order", zero_order, (False, True))
        self.boundary = check_boundary(boundary)
        self.truncation = check_truncation(truncation)
        self.activation = keras.activations.get(activation)
        self.use_bias = bool(use_bias)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)

    @property
    def margin(self) -> int:
        """Radius of the difference stencils."""
        return 1 if self.order <= 2 else 2

    def build(self, input_shape: Sequence[int | None]) -> None:
        check_image_shape(self.name, input_shape, minimum=3)
        terms = len(jet_stencils(self.order, self.zero_order))
        # No autocast: kernels are composed in the variable's own precision and cast afterwards.
        self.kernel = self.add_weight(
            name="kernel",
            shape=(terms, input_shape[-1], self.filters),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            autocast=False,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(self.filters,),
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
                autocast=False,
            )
        self.built = True

    def call(self, inputs: Any, scale: float = 1.0) -> Any:
        check_image_shape(self.name, inputs.shape, minimum=3, channels=self.kernel.shape[1])
        inputs = ops.cast(inputs, self.compute_dtype)  # Keras leaves integers as they are
        sigma = self.sigma * check_positive("scale", scale)
        smoothed = smooth_depthwise(inputs, sigma, self.margin, self.boundary, self.truncation)
        return self._finish(valid_convolution(smoothed, self.compose_kernel(sigma)), self.bias)

    def node(self, inputs: tuple[int, ...]) -> Node:
        """A tensor at sigma sigma_0, on a grid matched to it, for `ScaleChannels`."""
        return Node(inputs, self.sigma, self.margin)

    @property
    def absorbs_normalization(self) -> bool:
        """Whether a normalization that follows can be part of the kernel."""
        return self.activation is keras.activations.linear

    def run_channels(
        self, inputs: Channels, number: int, training: bool | None, normalization: Any = None
    ) -> Channels:
        """The layer in all matched scale channels: smooth and sample, then one convolution.

        Grids have as many points per sigma in all channels, which therefore share one kernel. A
        `ScaleBatchNormalization` as `normalization` becomes part of it.
        """
        smoothed = inputs.onto(number, self.compute_dtype)
        kernel, bias = self.compose_kernel(inputs.plan.density), self.bias
        if normalization is not None:
            factor, offset = normalization.affine()
            kernel = kernel * factor
            bias = offset if bias is None else bias * factor + offset
        if smoothed.swapped:
            kernel = ops.transpose(kernel, (1, 0, 2, 3))
        return smoothed.map(lambda x: self._finish(valid_convolution(x, kernel, training), bias))

    def compose_kernel(self, sigma: float) -> Any:
        """K = sum_j sigma^|a_j| C_j delta_j, the jet and its weights as one kernel.

        [size, size, input channels, filters], in the precision of the weights; `sigma` is in steps
        of the grid that the kernel is applied to.
        """
        stencils = jet_stencils(self.order, self.zero_order)
        normalization = scale_normalization(sigma, self.order, self.zero_order)
        terms, size = len(stencils), stencils.shape[-1]
        basis = (normalization[:, None, None] * stencils).reshape(terms, -1).T
        weights = ops.reshape(self.kernel, (terms, -1))
        composed = ops.matmul(ops.convert_to_tensor(basis, dtype=self.kernel.dtype), weights)
        return ops.reshape(composed, (size, size, *self.kernel.shape[1:]))

    def _finish(self, outputs: Any, bias: Any = None) -> Any:
        """Add a bias to what a composed kernel gave, and apply the activation."""
        if bias is not None:
            outputs = outputs + ops.cast(bias, outputs.dtype)
        return self.activation(outputs)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return (*input_shape[:-1], self.filters)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": self.filters,
            "sigma": self.sigma,
            "order": self.order,
            "zero_order": self.zero_order,
            "boundary": self.boundary,
            "truncation": self.truncation,
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "activity_regularizer": keras.regularizers.serialize(self.activity_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
        }
