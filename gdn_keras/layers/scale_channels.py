"""One network at several scales, with shared weights."""

import keras
from keras import ops

from gdn_keras.layers._base import check_image_shape
from gdn_keras.layers._resampling import sample_transposed, swap_axes
from gdn_keras.layers.central_pixel import CentralPixel
from gdn_keras.layers.gaussian_derivative import GaussianDerivative
from gdn_keras.layers.gaussian_smoothing import GaussianSmoothing
from gdn_keras.layers.scale_batch_normalization import ScaleBatchNormalization
from gdn_keras.layers.scale_pooling import ScalePooling
from gdn_keras.scale_space import SAMPLINGS, Geometry, plan_channels
from gdn_keras.scale_space.validation import check_choice, check_positive, check_scales


@keras.saving.register_keras_serializable(package="gdn_keras")
class ScaleChannels(keras.layers.Layer):
    """Runs one network of Gaussian derivative layers at several initial scales sigma_0.

    The layers' sigmas are relative: in the channel of sigma_0, a layer works at
    `sigma * sigma_0` pixels. All weights and normalisation statistics are shared, so that a
    rescaled image gives the same stack of channels, shifted along the scale axis (the paper's
    scale covariance), and pooling over it gives the same result (scale invariance).

    `sampling="matched"` puts each layer on a grid whose step is its own sigma, `sigma * sigma_0`,
    over `density`. All channels then run one and the same discrete network, so that covariance
    holds for the discrete network too, and coarse channels cost next to nothing.
    `sampling="dense"` evaluates every channel on the pixels of the image: the paper to the
    letter. Weights belong to the sampling they were trained with.

    Example:

    >>> network = keras.Sequential([
    ...     gdn_keras.layers.GaussianDerivative(12, sigma=1.0),
    ...     gdn_keras.layers.ScaleBatchNormalization(),
    ...     keras.layers.ReLU(),
    ...     gdn_keras.layers.GaussianDerivative(10, sigma=1.25),
    ...     gdn_keras.layers.CentralPixel(),
    ... ])
    >>> layer = gdn_keras.layers.ScaleChannels(network, scales=[1.0, 2.0, 4.0])
    >>> images = np.random.rand(2, 56, 56, 1)
    >>> layer(images).shape, layer.channels(images).shape
    ((2, 10), (2, 3, 10))

    Args:
        network: `keras.Sequential` of `GaussianDerivative` layers, `ScaleBatchNormalization`,
            layers that act on each point alone (activations, dropout), and possibly
            `CentralPixel`. Without the latter the outputs are maps of the image's size.
        scales: sigma_0 of the channels in pixels, in increasing order.
        pooling: "max", "average", "logsumexp", or `None` to return the stack of channels.
        sampling: "matched" or "dense".
        density: Grid points of a matched layer per sigma of that layer.
        **kwargs: Passed to `keras.layers.Layer`.

    Call arguments:
        inputs: Images [batch, height, width, channels]. Matched sampling needs a known height
            and width.
        training: Passed on to the layers.

    Output shape:
        [batch, classes] with `CentralPixel`, else [batch, height, width, features]; without
        pooling, a scale axis after the batch axis.
    """

    def __init__(
        self,
        network: keras.Sequential,
        scales,
        pooling: str | None = "max",
        sampling: str = "matched",
        density: float = 1.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.network = network
        self.scales = check_scales(scales)
        self.pooling = pooling
        self.sampling = check_choice("sampling", sampling, SAMPLINGS)
        self.density = check_positive("density", density)
        self._pool = None if pooling is None else ScalePooling(pooling, dtype=self.dtype_policy)
        self._jets = [x for x in network.layers if isinstance(x, GaussianDerivative)]
        _check_network(network, self._jets)

    @property
    def geometry(self) -> Geometry:
        """What the plan of the channels depends on, besides the image and the scales."""
        jet = self._jets[0]
        return Geometry(
            sigmas=tuple(layer.sigma for layer in self._jets),
            margins=tuple(layer.margin for layer in self._jets),
            sampling=self.sampling,
            center=any(isinstance(layer, CentralPixel) for layer in self.network.layers),
            boundary=jet.boundary,
            truncation=jet.truncation,
            density=self.density,
        )

    def plan(self, shape):
        """The grids and operators of all channels, for images of the given height and width."""
        return plan_channels(tuple(shape), self.scales, self.geometry)

    def build(self, input_shape):
        check_image_shape(self, input_shape, minimum=3)
        if self.sampling == "matched" and None in tuple(input_shape[1:3]):
            raise ValueError(
                "Matched sampling needs a known height and width; use `sampling='dense'` for "
                f"images of unknown size. Received: input_shape={tuple(input_shape)}"
            )
        if not self.network.built:
            self.network.build((None, None, None, input_shape[-1]))
        self.built = True

    def call(self, inputs, training=None):
        stack = self.channels(inputs, training)
        return stack if self._pool is None else self._pool(stack)

    def channels(self, inputs, training=None):
        """The stack of scale channels, [batch, scale channels, ...], before pooling."""
        inputs = ops.cast(inputs, self.compute_dtype)
        shape = inputs.shape[1:3]
        if None in tuple(shape):
            stack = self._run_layers(inputs, training)
        else:
            stack = self._run_plan(inputs, self.plan(shape), training)
        return ops.transpose(stack, (1, 0, *range(2, len(stack.shape))))

    def _run_layers(self, inputs, training):
        """Dense channels on images of unknown size, layer by layer on all pixels."""
        states = [inputs] * len(self.scales)
        for layer in self.network.layers:
            if isinstance(layer, GaussianDerivative):
                states = [
                    layer(x, scale=scale) for x, scale in zip(states, self.scales, strict=True)
                ]
            elif isinstance(layer, ScaleBatchNormalization):
                states = layer(states, training=training)
            else:
                states = [_call(layer, x, training) for x in states]
        return ops.stack(states)

    def _run_plan(self, inputs, groups, training):
        """All channels on the grids of a plan, channels of equal grids as one batch."""
        shares = [len(group.scales) / len(self.scales) for group in groups]
        states = [inputs] * len(groups)
        layers, k = list(self.network.layers), 0
        while layers:
            layer = layers.pop(0)
            if isinstance(layer, GaussianDerivative):
                affine = None
                if not training and layers and isinstance(layers[0], ScaleBatchNormalization):
                    affine = layers.pop(0).affine()
                states = [
                    self._derive(layer, k, x, group, affine)
                    for x, group in zip(states, groups, strict=True)
                ]
                k += 1
            elif isinstance(layer, ScaleBatchNormalization):
                states = layer(states, training=training, weights=shares)
            else:
                states = [_call(layer, x, training) for x in states]
        if len(states[0].shape) == 4:
            states = [self._maps(x, group, k) for x, group in zip(states, groups, strict=True)]
        return ops.concatenate(
            [
                ops.reshape(x, (len(group.scales), -1, *x.shape[1:]))
                for x, group in zip(states, groups, strict=True)
            ]
        )

    def _derive(self, layer, k, x, group, affine):
        """Layer k on one group: smooth and sample, then one convolution.

        Sampling swaps rows and columns: images are the right way round before layers 0, 2, ...
        """
        x = ops.cast(x, layer.compute_dtype)
        operators = group.lifts if k == 0 else group.operators[k - 1 : k]
        kernel, bias = layer.compose_kernel(operators[0].sigma), layer.bias
        matrices = [(op.rows, op.columns) for op in operators]
        if k % 2 == 0:
            kernel = ops.transpose(kernel, (1, 0, 2, 3))
        else:
            matrices = [pair[::-1] for pair in matrices]
        smoothed = ops.concatenate([sample_transposed(x, *pair) for pair in matrices])
        if affine is not None:
            factor, offset = affine
            kernel = kernel * factor
            bias = offset if bias is None else bias * factor + offset
        return layer.combine(smoothed, kernel, bias)

    def _maps(self, x, group, k):
        """Feature maps on the image's pixels, rows and columns in order again."""
        if k % 2 == 1:
            x = swap_axes(x)
        if group.outputs is None:
            return x
        size = ops.shape(x)[0] // len(group.outputs)
        maps = [
            sample_transposed(x[i * size : (i + 1) * size], op.rows, op.columns)
            for i, op in enumerate(group.outputs)
        ]
        return swap_axes(ops.concatenate(maps))

    def compute_output_shape(self, input_shape):
        features = self.network.compute_output_shape((None, None, None, input_shape[-1]))[-1]
        space = () if self.geometry.center else tuple(input_shape[1:3])
        channels = () if self.pooling else (len(self.scales),)
        return (input_shape[0], *channels, *space, features)

    def get_config(self):
        return {
            **super().get_config(),
            "network": keras.saving.serialize_keras_object(self.network),
            "scales": list(self.scales),
            "pooling": self.pooling,
            "sampling": self.sampling,
            "density": self.density,
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        config["network"] = keras.saving.deserialize_keras_object(config["network"])
        return cls(**config)


def _call(layer, x, training):
    return layer(x, training=training) if layer._call_has_training_arg else layer(x)


def _check_network(network, jets):
    if not jets:
        raise ValueError(
            "`network` must hold at least one GaussianDerivative layer. "
            f"Received: network={network!r}"
        )
    if len({(jet.boundary, jet.truncation) for jet in jets}) > 1:
        raise ValueError(
            "The GaussianDerivative layers of `network` must share `boundary` and `truncation`. "
            f"Received: {[(jet.boundary, jet.truncation) for jet in jets]}"
        )
    features = None
    for layer in network.layers:
        if isinstance(layer, GaussianDerivative):
            features = layer.filters
        elif not isinstance(layer, (ScaleBatchNormalization, CentralPixel)):
            _check_acts_on_points(layer, features)


def _check_acts_on_points(layer, features):
    spatial = (keras.layers.BatchNormalization, GaussianSmoothing)
    shape = (1, 5, 7, features or 1)
    if (
        isinstance(layer, spatial)
        or hasattr(layer, "strides")
        or tuple(layer.compute_output_shape(shape))[:3] != shape[:3]
    ):
        raise ValueError(
            "`network` may hold GaussianDerivative, ScaleBatchNormalization, CentralPixel "
            "and layers that act on each point alone; anything else breaks scale covariance. "
            f"Received: {layer!r}"
        )
