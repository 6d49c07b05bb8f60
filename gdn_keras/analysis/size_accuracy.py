"""Scale generalisation: how well a classifier does at sizes that it was not trained on."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np

from gdn_keras.analysis.selection import has_scale_channels, winning_channels, without_xla
from gdn_keras.datasets import ImageData, evaluation_pipeline
from gdn_keras.models import scale_channels_of, with_channels


class SizeResult(NamedTuple):
    """A classifier at one test size.

    Attributes:
        size: The test size, or `None` for validation images.
        images: Number of test images.
        accuracy: Share of them that was recognized.
        confusion: Counts [true class, predicted class].
        selected: Images won by each scale channel; `None` without channels or with many positions.
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

    Example, a CNN of one's own on the same axes:

    >>> data = gdn_keras.datasets.load_dataset("mnist_large_scale")  # doctest: +SKIP
    >>> results = evaluate_by_size(cnn, data)  # doctest: +SKIP

    Args:
        model: Any Keras classifier from images to scores [batch, ..., classes]; the highest wins,
            at any position. Selected scales come with a model of one `ScaleChannels` layer.
        data: A data set, or a function from a size to images [n, h, w, channels] and labels, or to
            a `tf.data.Dataset` of batches of both. Labels are integers [n] or one-hot [n, classes].
        sizes: The test sizes; those of the data set by default.
        batch_size: Images at a time, of arrays; without influence on the result.
        report: Called with each result as soon as it is there.
    """
    if sizes is None:
        if not isinstance(data, ImageData):
            raise ValueError("`sizes` must be given for a function of sizes. Received: sizes=None")
        sizes = data.test_sizes
    load: Callable[[Any], Any] = data.test if isinstance(data, ImageData) else data
    scaled = has_scale_channels(model) and len(scale_channels_of(model).output.shape) == 3
    classifier = without_xla(with_channels(model)) if scaled else model
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
            winners.append(winning_channels(stack[0]) if scaled else ())
        if not labels:
            raise ValueError(f"`data` must hold at least one image. Received: none at {size=}")
        channels = len(scale_channels_of(model).scales) if scaled else 0
        selected = np.bincount(np.concatenate(winners), minlength=channels) if scaled else None
        results.append(_result(size, np.concatenate(labels), np.concatenate(scores), selected))
        if report:
            report(results[-1])
    return results


def accuracy_by_size(
    model: keras.Model,
    data: ImageData | Callable[[Any], Any],
    sizes: Iterable[float | None] | None = None,
    batch_size: int = 100,
) -> dict[Any, float]:
    """The scale-generalisation curve: `{size: accuracy}`. Arguments as in `evaluate_by_size`."""
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
    if scores.shape[1] <= labels.max():
        raise ValueError(
            "`model` must give one score for each class, [batch, ..., classes]. "
            f"Received: output of {scores.shape[1]} scores for labels up to {labels.max()}"
        )
    predicted = scores.argmax(axis=1)
    confusion = np.zeros((scores.shape[1],) * 2, int)
    np.add.at(confusion, (labels, predicted), 1)
    size = None if size is None else float(size)
    accuracy = float(np.mean(predicted == labels))
    return SizeResult(size, len(labels), accuracy, confusion, selected)
