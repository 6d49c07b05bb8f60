"""Scale selection: which scale channel of a network answers to which size."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import keras
import numpy as np
from numpy.typing import ArrayLike

from gdn_keras.layers import ScaleChannels
from gdn_keras.models import channel_model, network_of, scale_channels_of

_channel_models: WeakKeyDictionary[keras.Model, keras.Model] = WeakKeyDictionary()


def scale_selection(model: keras.Model, images: np.ndarray, batch_size: int = 100) -> np.ndarray:
    """sigma_0 of the winning scale channel, `[n]`, for images `[n, height, width, channels]`.

    The channel that holds the maximum over channels, classes and, for maps and points, positions:
    with max pooling, the one that the answer of the model with one `ScaleChannels` layer is from.
    """
    layer = scale_channels_of(model)
    if model not in _channel_models:  # made and traced once
        _channel_models[model] = without_xla(channel_model(model))
    stack = _channel_models[model].predict(images, batch_size=batch_size, verbose=0)
    if layer.readout == "points":
        grids = layer.point_grids(np.shape(images)[1:3])
        scales = np.repeat([g.scale for g in grids], [g.rows * g.columns for g in grids])
        return scales[stack.max(axis=2).argmax(axis=1)]
    return np.asarray(layer.scales)[winning_channels(stack)]


def scale_selection_histogram(
    model: keras.Model, images: np.ndarray, batch_size: int = 100
) -> dict[float, float]:
    """`{sigma_0: share of the images won by that scale channel}`, for images of one size."""
    selected = scale_selection(model, images, batch_size)
    return {s: float(np.mean(selected == s)) for s in scale_channels_of(model).scales}


def effective_training_scales(
    model: keras.Model, images: np.ndarray, mass: float = 0.9, batch_size: int = 100
) -> tuple[float, float]:
    """The lowest and highest sigma_0 that a network uses for training images of one size.

    Section 6's footnote: the winning channels' scales without outliers. Here, the shortest interval
    of channels that wins at least `mass` of the images; of equally short ones, the one that wins
    most. There should be further channels below and above it.
    """
    if not 0 < mass <= 1:
        raise ValueError(f"`mass` must lie in (0, 1]. Received: mass={mass}")
    histogram = scale_selection_histogram(model, images, batch_size)
    return shortest_interval(list(histogram), list(histogram.values()), mass)


def shortest_interval(
    scales: Sequence[float], shares: Sequence[float], mass: float
) -> tuple[float, float]:
    """The shortest run of scales whose shares add up to `mass`; the heaviest of equals."""
    runs = [(i, j) for i in range(len(scales)) for j in range(i, len(scales))]
    weights = {(i, j): sum(shares[i : j + 1]) for i, j in runs}
    enough = [run for run in runs if weights[run] >= mass * sum(shares) - 1e-9]
    first, last = min(enough, key=lambda run: (run[1] - run[0], -weights[run]))
    return scales[first], scales[last]


def selection_slope(
    sizes: Sequence[float],
    scales: Sequence[float],
    histograms: Sequence[ArrayLike],
    within: tuple[float, float] = (1.0, 4.0),
) -> float:
    """Slope of log2(selected sigma_0) against log2(size): 1 where scale follows size.

    Args:
        sizes: Test sizes; those `within` count, since winners near the ends would have to lie
            beyond the lowest or the highest scale.
        scales: sigma_0 of the channels.
        histograms: For each size, the counts or shares of the channels.
        within: The lowest and the highest size that count.
    """
    chosen = [k for k, size in enumerate(sizes) if within[0] <= size <= within[1]]
    if len(chosen) < 2:
        raise ValueError(f"`sizes` must hold two sizes within {within}. Received: sizes={sizes}")
    means = [np.average(np.log2(scales), weights=np.asarray(histograms[k])) for k in chosen]
    return float(np.polyfit(np.log2([sizes[k] for k in chosen]), means, 1)[0])


def has_scale_channels(model: keras.Model) -> bool:
    """Whether a model holds one `ScaleChannels` layer whose stack can be read."""
    found = [layer for layer in network_of(model).layers if isinstance(layer, ScaleChannels)]
    return len(found) == 1 and found[0].pooling is None


def without_xla(model: keras.Model) -> keras.Model:
    """`model`, for `predict`: left to itself, Keras uses XLA on CPUs, which is slower; JAX must."""
    model.compile(jit_compile=keras.backend.backend() == "jax")
    return model


def winning_channels(stack: np.ndarray) -> np.ndarray:
    """The channel with the highest score of any class, anywhere, from [batch, channels, ...]."""
    stack = np.asarray(stack)
    return stack.max(axis=tuple(range(2, stack.ndim))).argmax(axis=1)
