"""One network at several scales, with shared weights."""

import itertools

import keras
from keras import ops

from gdn_keras.layers._base import check_image_shape
from gdn_keras.layers._engine import run_layers, run_plan
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
    letter, up to the rounding errors of the precision. Its coarse layers cost less with a
    `truncation` of 1e-4 or below (`gdn_keras.scale_space.factored`). Weights belong to the sampling
    they were trained with.

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
        if not isinstance(network, keras.Sequential):
            raise ValueError(f"`network` must be a keras.Sequential. Received: network={network!r}")
        self.network = network
        self.scales = check_scales(scales)
        self.pooling = pooling
        self.sampling = check_choice("sampling", sampling, SAMPLINGS)
        self.density = check_positive("density", density)
        self._pool = None if pooling is None else ScalePooling(pooling, dtype=self.dtype_policy)
        self._jets = [x for x in network.layers if isinstance(x, GaussianDerivative)]
        _check_network(network, self._jets)
        if self.sampling == "matched":
            self._check_grids()

    def _check_grids(self):
        """Raise unless each layer smooths by at least half a step of the grid before it."""
        sigmas = [jet.sigma for jet in self._jets]
        if self.scales[0] * sigmas[0] < 0.5:
            raise ValueError(
                "`scales` must give the first layer a sigma of at least half a pixel, or there is "
                f"nothing to sample between pixels. Received: scales={list(self.scales)} with "
                f"sigma={sigmas[0]:g}"
            )
        if any(b * self.density < a / 2 for a, b in itertools.pairwise(sigmas)):
            raise ValueError(
                "Matched grids have `density` points per sigma, and each layer must smooth by at "
                "least half a step of the grid before it: choose a higher `density`, sigmas that "
                f"do not fall, or sampling='dense'. Received: density={self.density:g} with "
                f"sigmas={sigmas}"
            )

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
        self._image_shape = tuple(input_shape[1:])
        self.built = True

    def call(self, inputs, training=None):
        stack = self.channels(inputs, training)
        return stack if self._pool is None else self._pool(stack)

    def channels(self, inputs, training=None):
        """The stack of scale channels, [batch, scale channels, ...], before pooling."""
        if not self.built:
            self.build(inputs.shape)
        check_image_shape(self, inputs.shape, minimum=3, channels=self._image_shape[-1])
        inputs = ops.cast(inputs, self.compute_dtype)
        if None in tuple(inputs.shape[1:3]) and None not in self._image_shape:
            # Input pipelines lose static shapes; what the layer was built for is known all the
            # same. With the batch size spelt out, another size is an error and not a mix-up.
            inputs = ops.reshape(inputs, (ops.shape(inputs)[0], *self._image_shape))
        if None in tuple(inputs.shape[1:3]):
            return run_layers(self.network, self.scales, inputs, training)
        return run_plan(self.network, self.plan(inputs.shape[1:3]), inputs, training)

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
    if any(jet.activity_regularizer is not None for jet in jets):
        raise ValueError(
            "Inside `ScaleChannels`, GaussianDerivative layers have no outputs of their own to "
            "regularise: leave out `activity_regularizer`, or add an ActivityRegularization layer "
            f"after them. Received: network={network!r}"
        )
    features = None
    for layer in network.layers:
        if isinstance(layer, GaussianDerivative):
            features = layer.filters
        elif not isinstance(layer, (ScaleBatchNormalization, CentralPixel)):
            _check_acts_on_points(layer, features)


def _check_acts_on_points(layer, features):
    spatial = (
        keras.layers.BatchNormalization,
        keras.layers.GroupNormalization,
        CentralPixel,
        GaussianDerivative,
        GaussianSmoothing,
        ScaleBatchNormalization,
    )
    shape = (1, 5, 7, features or 1)
    if (
        any(isinstance(part, spatial) for part in layer._flatten_layers())
        or getattr(layer, "axis", -1) not in (-1, 3, [-1], [3], (-1,), (3,))
        or hasattr(layer, "strides")
        or tuple(layer.compute_output_shape(shape))[:3] != shape[:3]
    ):
        raise ValueError(
            "`network` may hold GaussianDerivative, ScaleBatchNormalization, CentralPixel "
            "and layers that act on each point alone; anything else breaks scale covariance. "
            f"Received: {layer!r}"
        )
