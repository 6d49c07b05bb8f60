"""Scale generalization, and which scale channel of a network answers to which size."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import keras
import numpy as np
from numpy.typing import ArrayLike

from gdn_keras.checks import require
from gdn_keras.datasets import ImageData, evaluation_pipeline
from gdn_keras.layers import ScaleChannels
from gdn_keras.models import channel_model, network_of, scale_channels_of, with_channels

_channel_models: WeakKeyDictionary[keras.Model, keras.Model] = WeakKeyDictionary()


def scale_selection(model: keras.Model, images: np.ndarray, batch_size: int = 100) -> np.ndarray:
    """sigma_0 of the winning scale channel, `[n]`, for images `[n, height, width, channels]`.

    The channel that holds the maximum over channels, classes and, for maps and points, positions:
    with max pooling, the one that the answer of the model with one `ScaleChannels` layer is from.
    """
    layer = scale_channels_of(model)
    if model not in _channel_models:  # made and traced once
        _channel_models[model] = _without_xla(channel_model(model))
    stack = _channel_models[model].predict(images, batch_size=batch_size, verbose=0)
    scales = layer.scales
    if layer.readout == "points":
        grids = layer.point_grids(np.shape(images)[1:3])
        scales = np.repeat([g.scale for g in grids], [g.rows * g.columns for g in grids])
    return np.asarray(scales)[_winners(stack)]


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
    require(0 < mass <= 1, "mass", "lie in (0, 1]", mass)
    histogram = scale_selection_histogram(model, images, batch_size)
    return shortest_interval(list(histogram), list(histogram.values()), mass)


def shortest_interval(
    scales: Sequence[float], shares: Sequence[float], mass: float
) -> tuple[float, float]:
    """The shortest run of scales whose shares add up to `mass`; the heaviest of equals."""
    runs = itertools.combinations_with_replacement(range(len(scales)), 2)
    weights = {(i, j): sum(shares[i : j + 1]) for i, j in runs}
    enough = [run for run, weight in weights.items() if weight >= mass * sum(shares) - 1e-9]
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
        sizes: Test sizes.
        scales: sigma_0 of the channels.
        histograms: For each size, the counts or shares of the channels.
        within: The lowest and the highest size that count, since winners near the ends would have
            to lie beyond the lowest or the highest scale.
    """
    chosen = [k for k, size in enumerate(sizes) if within[0] <= size <= within[1]]
    require(len(chosen) > 1, "sizes", f"hold two sizes within {within}", sizes)
    means = [np.average(np.log2(scales), weights=np.asarray(histograms[k])) for k in chosen]
    return float(np.polyfit(np.log2([sizes[k] for k in chosen]), means, 1)[0])


def _channels_of(model: keras.Model) -> ScaleChannels | None:
    """The only `ScaleChannels` layer of a model, if it gives its stack and one answer an image."""
    found = [layer for layer in network_of(model).layers if isinstance(layer, ScaleChannels)]
    fits = len(found) == 1 and found[0].pooling is None and len(found[0].output.shape) == 3
    return found[0] if fits else None


def _without_xla(model: keras.Model) -> keras.Model:
    """`model`, for `predict`: left to itself, Keras uses XLA on CPUs, which is slower; JAX must."""
    model.compile(jit_compile=keras.backend.backend() == "jax")
    return model


def _winners(stack: np.ndarray) -> np.ndarray:
    """The channel or point with the highest score, anywhere, from [batch, channels, ...]."""
    return stack.max(axis=tuple(range(2, stack.ndim))).argmax(axis=1)


class SizeResult(NamedTuple):
    """A classifier at one test size, `None` for validation images.

    `accuracy` is the share of the `images` that was recognized, `confusion` the counts [true class,
    predicted class], and `selected` the images won by each scale channel; `None` without channels
    or with many positions.
    """

    size: float | None
    images: int
    accuracy: float
    confusion: np.ndarray
    selected: np.ndarray | None


def evaluate_by_size(
    model: keras.Model,
    data: ImageData | Callable[[Any], Any],
    sizes: Iterable[float | None] | None = None,
    batch_size: int = 100,
    report: Callable[[SizeResult], None] | None = None,
) -> list[SizeResult]:
    """Accuracy, confusion and selected scales at each test size, in one pass over the images.

    Example, with a CNN of your own:

    >>> data = gdn_keras.datasets.load_dataset("mnist_large_scale")  # doctest: +SKIP
    >>> results = evaluate_by_size(cnn, data)  # doctest: +SKIP

    Args:
        model: Any Keras classifier from images to scores [batch, ..., classes]; the highest wins,
            at any position. Selected scales come with a model of one `ScaleChannels` layer.
        data: A data set, or a function from a size to images [n, h, w, channels] and labels, or to
            a `tf.data.Dataset` of batches of both. Labels are integers [n] or one-hot [n, classes].
        sizes: The test sizes; those of the data set by default.
        batch_size: Images at a time, of arrays; it does not change the result.
        report: Called with each result as soon as it is ready.
    """
    load: Any = data
    if isinstance(data, ImageData):
        load, sizes = data.test, data.test_sizes if sizes is None else sizes
    if sizes is None:
        raise ValueError("`sizes` must be given for a function of sizes. Received: sizes=None")
    channels = _channels_of(model)
    classifier = _without_xla(with_channels(model)) if channels else model
    results = []
    for size in sizes:
        labels, scores, winners = [], [], []
        for images, truth in _batches(load(size), batch_size):
            count = max(map(len, [images, *labels[:1]]))
            # One shape is traced once: a batch is filled up with its first images.
            found = classifier.predict_on_batch(images[np.arange(count) % len(images)])
            output, *stack = (np.asarray(x)[: len(images)] for x in keras.tree.flatten(found))
            labels.append(truth)
            scores.append(output.reshape(len(images), -1, output.shape[-1]).max(axis=1))
            winners.extend(_winners(stack[0]) if channels else ())
        if not labels:
            raise ValueError(f"`data` must hold at least one image. Received: none at {size=}")
        selected = np.bincount(winners, minlength=len(channels.scales)) if channels else None
        results.append(_result(size, np.concatenate(labels), np.concatenate(scores), selected))
        if report:
            report(results[-1])
    return results


def accuracy_by_size(
    model: keras.Model,
    data: Any,
    sizes: Iterable[float | None] | None = None,
    batch_size: int = 100,
) -> dict[Any, float]:
    """The scale-generalization curve: `{size: accuracy}`. Arguments as in `evaluate_by_size`."""
    results = evaluate_by_size(model, data, sizes, batch_size)
    return {result.size: result.accuracy for result in results}


def _batches(images: Any, batch_size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of images and integer labels, from arrays or from a `tf.data.Dataset` of both."""
    if not hasattr(images, "as_numpy_iterator"):
        images, labels = images
        if not len(labels):
            return
        images = evaluation_pipeline(images, _integers(labels), batch_size=batch_size)
    for batch, labels in images.as_numpy_iterator():
        yield batch, _integers(labels)


def _integers(labels: Any) -> np.ndarray:
    """Labels as integers, whether they are integers or one-hot."""
    labels = np.asarray(labels)
    return labels.argmax(axis=-1) if labels.ndim == 2 else labels


def _result(
    size: float | None, labels: np.ndarray, scores: np.ndarray, selected: np.ndarray | None
) -> SizeResult:
    classes, predicted = scores.shape[1], scores.argmax(axis=1)
    if classes <= labels.max():
        text = "`model` must give one score for each class, [batch, ..., classes]. Received:"
        raise ValueError(f"{text} output of {classes} scores for labels up to {labels.max()}")
    confusion = np.zeros((classes, classes), int)
    np.add.at(confusion, (labels, predicted), 1)
    size = None if size is None else float(size)
    return SizeResult(size, len(labels), float(np.mean(predicted == labels)), confusion, selected)
