"""The Gaussian derivative network as a functional Keras model."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from gdn_keras.checks import (
    check_choice,
    check_input_shape,
    check_integer,
    check_positive,
    check_widths,
    require,
)
from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    ScaleBatchNormalization,
    ScaleChannels,
    ScalePooling,
)
from gdn_keras.models.image_model import ImageModel
from gdn_keras.scale_space import DEFAULT_CONE, DEFAULT_TRUNCATION

# sigma_0 = 2^(i/2), from 1/sqrt(2) to 8: the paper's eight scale channels.
PAPER_SCALES = tuple(2 ** (i / 2) for i in range(-1, 7))

_FIRST_LOGIT = -3.0

READOUTS = {
    "center": CentralPixel,
    "anywhere": keras.layers.GlobalMaxPooling2D,
    "average": keras.layers.GlobalAveragePooling2D,
}
OUTPUTS = (*READOUTS, "points", "map")


def gaussian_derivative_network(
    input_shape: Sequence[int | None] = (112, 112, 1),
    widths: Sequence[int] = (12, 16, 24, 32, 64),
    num_classes: int = 10,
    scales: Sequence[float] = PAPER_SCALES,
    scale_ratio: float = 1.25,
    sigmas: Sequence[float] | None = None,
    pooling: str | None = None,
    sampling: str = "matched",
    order: int = 2,
    zero_order: bool = False,
    residual: bool = False,
    scale_dropout: float = 0.0,
    boundary: str = "symmetric",
    truncation: float = DEFAULT_TRUNCATION,
    density: float = 1.0,
    cone: float = DEFAULT_CONE,
    readout: str = "center",
    boxes: bool = False,
    surround: float = 0.0,
    border: float = 0.0,
    dtype: Any = None,
    name: str = "gaussian_derivative_network",
) -> keras.Model:
    """A multi-scale-channel Gaussian derivative network (sections 4 to 6 of the paper).

    Each scale channel is a cascade of `GaussianDerivative` layers at
    sigma_k = scale_ratio^(k-1) sigma_0, or at other `sigmas`, with batch normalization and ReLU
    between them and one output for each class. All channels share all weights.

    Example:

    >>> model = gdn_keras.models.gaussian_derivative_network(input_shape=(64, 64, 3), num_classes=5)
    >>> model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))

    Args:
        input_shape: Height, width and channels of the images. Height and width may be `None`, for
            batches of any one size.
        widths: Feature channels of the layers before the last.
        num_classes: Number of classes: feature channels of the last layer.
        scales: sigma_0 of the scale channels in pixels, in increasing order.
        scale_ratio: r, the ratio between the sigmas of successive layers, >= 1, where `sigmas` does
            not give them.
        sigmas: sigma_k of the layers in units of sigma_0, not decreasing: one for each of `widths`
            and one for the last layer. The step of the last grid decides how close two objects may
            be: (1, 2, 2, 4, 4, 4) rises quickly and then stays.
        pooling: Over scale channels: "max" (the default; an object has one size), "average" (where
            all scales have a say, as in textures) or "logsumexp" (in between). Points have none.
        sampling: "matched" (each channel on grids matched to its scale) or "dense" (the paper to
            the letter: every channel on the pixels). See `ScaleChannels`.
        order: Highest order of differentiation, up to 3. The third helps where corners and
            curvature tell the classes apart, for nearly twice the weights.
        zero_order: Whether layers take the smoothed image itself too. It helps where brightness or
            color matters, and costs invariance to added brightness.
        residual: Whether pairs of layers after the first become residual blocks, with a skip that
            is sampled on the coarser grid. It helps networks of six and more layers to train.
        scale_dropout: Share of the scale channels left out at random in training. It helps where
            one channel does all the work: with few sizes in the training set, and with textures.
        boundary, truncation: As in `GaussianDerivative`.
        density, cone: As in `ScaleChannels`.
        readout: What is read of each channel, on its own grid. "center": class scores of what is in
            the middle of the image. "anywhere": the highest class scores of any place. "average":
            class scores of features averaged over the image, for textures. "points": scores at
            each point of the channels' last grids, [batch, points, classes], for detection; see
            `ScaleChannels.point_grids`. "map": scores at each pixel.
        boxes: Whether points have four more numbers after the scores, for the boxes of objects;
            see `Detector`.
        surround: As in `ScaleChannels`, for readout="center" and "anywhere" only. It helps with
            objects that reach beyond the image, if training images were continued in this way too
            (`datasets.RandomFrame`).
        border: As in `ScaleChannels`, for readout="points": in use, not in training.
        dtype: Keras's dtype policy of the layers, such as "mixed_bfloat16"; the global one by
            default. Logits are in single precision at least.
        name: Name of the model.

    Returns:
        A functional `ImageModel` from images to logits. The layer "scale_channels" gives the
        stack before pooling (see `channel_model`).
    """
    widths = check_widths(widths)
    num_classes = check_integer("num_classes", num_classes)
    sigmas = _check_sigmas(sigmas, scale_ratio, len(widths) + 1)
    check_choice("readout", readout, OUTPUTS)
    check_choice("residual", residual, (False, True))
    check_choice("boxes", boxes, (False, True))
    input_shape = check_input_shape(input_shape)
    if readout == "points" and (pooling is not None or scale_dropout):
        raise ValueError(
            "`pooling` and `scale_dropout` have nothing to do with readout='points', which are not "
            f"pooled. Received: pooling={pooling!r}, scale_dropout={scale_dropout!r}"
        )
    if boxes and readout != "points":
        raise ValueError(f"`boxes` are for readout='points' only. Received: readout={readout!r}")
    policy = keras.dtype_policies.get(dtype)
    logits = "float32" if policy.compute_dtype in ("float16", "bfloat16") else policy
    # A bias before batch normalization would be redundant.
    jet = {"order": order, "zero_order": zero_order, "use_bias": False}
    jet |= {"boundary": boundary, "truncation": truncation}
    layers = [
        [
            GaussianDerivative(n, sigma, dtype=policy, **jet),
            ScaleBatchNormalization(dtype=policy),
            keras.layers.ReLU(dtype=policy),
        ]
        for n, sigma in zip(widths, sigmas[:-1], strict=True)
    ]
    head = _head(num_classes, readout, sigmas[-1], jet, logits)
    box_layer = None
    if boxes:  # not normalized: their values are lengths
        jet |= {"zero_order": True, "use_bias": True}
        box_layer = GaussianDerivative(4, sigmas[-1], dtype=logits, **jet)
    any_image = keras.Input((None, None, input_shape[-1]), name="images")
    network = _shared_network(layers, head, box_layer, any_image, residual)

    options = {"sampling": sampling, "density": density, "cone": cone}
    options |= {"surround": surround, "border": border}
    options |= {"readout": "points" if readout == "points" else "map", "pooling": None}
    channels = ScaleChannels(network, scales, name="scale_channels", dtype=policy, **options)
    images = keras.Input(input_shape, name="images")
    if readout == "points":
        return ImageModel(images, channels(images), name=name)
    pooling = "max" if pooling is None else pooling
    pool = ScalePooling(pooling, scale_dropout, dtype=logits, name="scale_pooling")
    return ImageModel(images, pool(channels(images)), name=name)


def _check_sigmas(
    value: Sequence[float] | None, scale_ratio: float, count: int
) -> tuple[float, ...]:
    """Of the layers in units of sigma_0: those that are given, or a geometric progression."""
    require(check_positive("scale_ratio", scale_ratio) >= 1, "scale_ratio", "be >= 1", scale_ratio)
    if value is None:
        return tuple(scale_ratio**k for k in range(count))
    sigmas = tuple(check_positive("sigmas", sigma) for sigma in np.atleast_1d(value).tolist())
    text = f"be {count} numbers that do not decrease, one for each of `widths` and the last layer"
    require(len(sigmas) == count and list(sigmas) == sorted(sigmas), "sigmas", text, value)
    return sigmas


def _head(
    num_classes: int, readout: str, sigma: float, jet: dict[str, Any], dtype: Any
) -> list[keras.Layer]:
    """What makes class scores of features.

    Scores are normalized, jointly over the scale channels, and start out negative: a maximum over
    channels should first say "nothing here", or channels far from the scale of the object, seldom
    seen in training, win at other sizes.
    """
    first_logit = keras.initializers.Constant(_FIRST_LOGIT)
    norm = ScaleBatchNormalization(beta_initializer=first_logit, dtype=dtype)
    read = [READOUTS[readout](dtype=dtype)] if readout in READOUTS else []
    if readout == "average":
        return [*read, keras.layers.Dense(num_classes, use_bias=False, dtype=dtype), norm]
    return [GaussianDerivative(num_classes, sigma, dtype=dtype, **jet), norm, *read]


def _shared_network(
    layers: list[list[keras.Layer]],
    head: list[keras.Layer],
    boxes: keras.Layer | None,
    inputs: Any,
    residual: bool,
) -> keras.Model:
    """A cascade; or the first layer, then blocks of two with a skip, and one that is left over."""
    if not residual and boxes is None:
        cascade = [part for layer in layers for part in layer]
        return keras.Sequential([*cascade, *head], name="shared_network")
    x, dtype = _through(layers[0], inputs), layers[0][0].dtype_policy
    size = 2 if residual else 1
    for block in (layers[k : k + size] for k in range(1, len(layers), size)):
        *parts, relu = [part for layer in block for part in layer]
        y = _through(parts, x)
        if len(block) == 2:
            if x.shape[-1] != y.shape[-1]:  # what is skipped gets as many features
                x = keras.layers.Dense(y.shape[-1], use_bias=False, dtype=dtype)(x)
            y = keras.layers.Add(dtype=dtype)([x, y])
        x = relu(y)
    outputs = _through(head, x)
    if boxes is not None:
        joined = keras.layers.Concatenate(dtype=boxes.dtype_policy)
        outputs = joined([outputs, boxes(x)])
    return keras.Model(inputs, outputs, name="shared_network")


def _through(layers: list[keras.Layer], x: Any) -> Any:
    for layer in layers:
        x = layer(x)
    return x
