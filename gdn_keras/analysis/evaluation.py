"""Scale generalisation: how well a classifier does at sizes that it was not trained on."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import keras
import numpy as np

from gdn_keras.analysis.selection import has_scale_channels, winning_channels, with_channels
from gdn_keras.datasets import TEST_SIZES, evaluation_pipeline


class SizeResult(NamedTuple):
    """A classifier at one test size.

    Attributes:
        size: The test size.
        images: Number of test images.
        accuracy: Share of them that was recognised.
        confusion: Counts [true class, predicted class].
        selected: Number of images won by each scale channel, or `None` without scale channels.
    """

    size: float
    images: int
    accuracy: float
    confusion: np.ndarray
    selected: np.ndarray | None


def evaluate_by_size(
    model: keras.Model,
    load: Callable[[float], tuple[np.ndarray, np.ndarray]],
    sizes: Iterable[float] = TEST_SIZES,
    batch_size: int = 100,
    report: Callable[[SizeResult], None] | None = None,
) -> list[SizeResult]:
    """Accuracy, confusion and selected scales at each test size, in one pass over the images.

    Example, a CNN of one's own on the same axes:

    >>> results = evaluate_by_size(cnn, large_scale_loader())  # doctest: +SKIP

    Args:
        model: Any Keras classifier from images to one score a class, the highest of which wins.
            Selected scales come with a model that holds one `ScaleChannels` layer.
        load: Function from a size to images [n, h, w, channels] of that size and labels [n], such
            as `large_scale_loader()`.
        sizes: The test sizes.
        batch_size: Images at a time; without influence on the result.
        report: Called with each result as soon as it is there.
    """
    scaled = has_scale_channels(model)
    classifier = with_channels(model) if scaled else model
    results = []
    for size in sizes:
        images, labels = load(size)
        if not len(labels):
            raise ValueError(f"`load` must give at least one image. Received: none at {size=}")
        batches = evaluation_pipeline(images, labels, batch_size=batch_size)
        scores = classifier.predict(batches.map(lambda x, y: x), verbose=0)
        scores, stack = scores if scaled else (scores, None)
        results.append(_result(size, np.asarray(labels), scores, stack))
        if report:
            report(results[-1])
    return results


def accuracy_by_size(
    model: keras.Model,
    load: Callable[[float], tuple[np.ndarray, np.ndarray]],
    sizes: Iterable[float] = TEST_SIZES,
    batch_size: int = 100,
) -> dict[float, float]:
    """The scale-generalisation curve: `{size: accuracy}`. Arguments as in `evaluate_by_size`."""
    results = evaluate_by_size(model, load, sizes, batch_size)
    return {result.size: result.accuracy for result in results}


def _result(size, labels, scores, stack) -> SizeResult:
    if scores.ndim != 2 or scores.shape[1] <= labels.max():
        raise ValueError(
            "`model` must give one score for each class, [batch, classes]. "
            f"Received: output of shape {scores.shape} for labels up to {labels.max()}"
        )
    predicted = scores.argmax(axis=1)
    confusion = np.zeros((scores.shape[1],) * 2, int)
    np.add.at(confusion, (labels, predicted), 1)
    selected = None
    if stack is not None:
        selected = np.bincount(winning_channels(stack), minlength=stack.shape[1])
    accuracy = float(np.mean(predicted == labels))
    return SizeResult(float(size), len(labels), accuracy, confusion, selected)
