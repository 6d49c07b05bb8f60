"""The Gaussian derivative network as a functional Keras model."""

from collections.abc import Sequence

import keras

from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    ScaleBatchNormalization,
    ScaleChannels,
    ScalePooling,
)
from gdn_keras.presets import PAPER_SCALES
from gdn_keras.scale_space import DEFAULT_TRUNCATIONS, SAMPLINGS
from gdn_keras.scale_space.validation import (
    check_choice,
    check_input_shape,
    check_integer,
    check_positive,
    check_widths,
)

_FIRST_LOGIT = -3.0


def gaussian_derivative_network(
    input_shape: Sequence[int | None] = (112, 112, 1),
    widths: Sequence[int] = (12, 16, 24, 32, 64),
    classes: int = 10,
    scales: Sequence[float] = PAPER_SCALES,
    scale_ratio: float = 1.25,
    pooling: str = "max",
    sampling: str = "matched",
    order: int = 2,
    boundary: str = "symmetric",
    truncation: float | None = None,
    density: float = 1.0,
    output: str = "center",
    name: str = "gaussian_derivative_network",
) -> keras.Model:
    """A multi-scale-channel Gaussian derivative network (sections 4 to 6 of the paper).

    Each scale channel is a cascade of `GaussianDerivative` layers at
    sigma_k = scale_ratio^(k-1) sigma_0, with batch normalisation and ReLU between them and one
    output for each class, read at the centre of the image. All channels share all weights.

    Example:

    >>> model = gdn_keras.models.gaussian_derivative_network(input_shape=(64, 64, 3), classes=5)
    >>> model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))

    Args:
        input_shape: Height, width and channels of the images. Height and width may be `None`
            with dense sampling.
        widths: Feature channels of the layers before the last.
        classes: Number of classes: feature channels of the last layer.
        scales: sigma_0 of the scale channels in pixels, in increasing order.
        scale_ratio: r, the ratio between the sigmas of successive layers, >= 1.
        pooling: "max", "average" or "logsumexp", over scale channels.
        sampling: "matched" (each channel on grids matched to its scale) or "dense" (the paper to
            the letter: every channel on the pixels). See `ScaleChannels`.
        order: Highest order of differentiation.
        boundary: "symmetric", "replicate" or "zero".
        truncation: Bound on the mass cut off each smoothing kernel; 1e-3 for matched sampling by
            default, and 1e-4 for dense, whose operators are then of lower rank and cheaper.
        density: Grid points per sigma of a matched channel. See `ScaleChannels`.
        output: "center" for one vector of class scores an image, "map" for one at each pixel.
        name: Name of the model.

    Returns:
        A functional `keras.Model` from images to float32 logits. The layer "scale_channels"
        gives the stack before pooling (see `channel_model`).
    """
    widths = check_widths(widths)
    classes = check_integer("classes", classes)
    if check_positive("scale_ratio", scale_ratio) < 1:
        raise ValueError(f"`scale_ratio` must be >= 1. Received: scale_ratio={scale_ratio!r}")
    check_choice("output", output, ("center", "map"))
    input_shape = check_input_shape(input_shape)
    check_choice("sampling", sampling, SAMPLINGS)
    truncation = DEFAULT_TRUNCATIONS[sampling] if truncation is None else truncation
    jet = {"order": order, "boundary": boundary, "truncation": truncation}

    layers = []
    for k, width in enumerate(widths):
        # A bias before batch normalisation would be redundant.
        layers.append(GaussianDerivative(width, scale_ratio**k, use_bias=False, **jet))
        layers.append(ScaleBatchNormalization())
        layers.append(keras.layers.ReLU())
    # Logits stay float32 under mixed precision. They are normalised too, jointly over the scale
    # channels, and start out negative: a maximum over channels should first say "nothing here",
    # or channels far from the scale of the object, seldom seen in training, win at other sizes.
    last = {"use_bias": False, "dtype": "float32"}
    layers.append(GaussianDerivative(classes, scale_ratio ** len(widths), **last, **jet))
    first_logit = keras.initializers.Constant(_FIRST_LOGIT)
    layers.append(ScaleBatchNormalization(beta_initializer=first_logit, dtype="float32"))
    if output == "center":
        layers.append(CentralPixel(dtype="float32"))

    images = keras.Input(input_shape, name="images")
    stack = ScaleChannels(
        keras.Sequential(layers, name="shared_network"),
        scales,
        pooling=None,
        sampling=sampling,
        density=density,
        name="scale_channels",
    )(images)
    logits = ScalePooling(pooling, dtype="float32", name="scale_pooling")(stack)
    return keras.Model(images, logits, name=name)
