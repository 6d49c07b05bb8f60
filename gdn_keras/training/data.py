"""The images of a run, as its settings ask for them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gdn_keras.datasets import (
    Digits,
    LargeScale,
    load_embedded_digits,
    load_large_scale,
    load_mnist_directory,
    load_mnist_tfds,
    load_official_large_scale,
)
from gdn_keras.datasets.large_scale import select_split
from gdn_keras.training.settings import Settings

_VALIDATION_IMAGES = 2000  # at most, so that watching a long training costs little of its time


class RunData(NamedTuple):
    """Training and validation images, and a function from a size to test images."""

    train: LargeScale
    validation: LargeScale
    test: Callable[[float], LargeScale]


def load_data(settings: Settings) -> RunData:
    """The images of a run. Training images are kept in the cache of `load_large_scale`."""
    if settings.data == "official":
        return _official(settings)
    digits = load_digits(settings)
    if settings.images == "mnist":
        return _original(settings, digits)
    train = [
        load_large_scale(
            "train",
            size,
            source=digits,
            count=settings.digits,
            output_shape=(settings.training_frame,) * 2,
        )
        for size in settings.train_sizes
    ]
    held_out = min(_VALIDATION_IMAGES, len(select_split(digits, "validation")[1]))
    validation = load_large_scale(
        "validation",
        settings.train_sizes[0],
        source=digits,
        count=held_out,
        output_shape=(settings.training_frame,) * 2,
        cache=False,
    )
    test = large_scale_loader(digits, settings.test_digits, settings.frame)
    return RunData(concatenate(train), validation, test)


def load_digits(settings: Settings) -> Digits:
    """The digits that the images of a run are made from."""
    if settings.data == "mnist":
        return load_mnist_directory(settings.data_dir)
    if settings.data == "tfds":
        return load_mnist_tfds(settings.data_dir)
    return load_embedded_digits()


def large_scale_loader(
    source: Digits | None = None, count: int | None = None, frame: int = 112, split: str = "test"
) -> Callable[[float], LargeScale]:
    """A function from a size to images of that size and labels, for `evaluate_by_size`.

    Images are made when they are asked for and kept nowhere: that takes a hundredth of the time
    that a network needs for them.

    Args:
        source: The digits; those in the package if `None`.
        count: How many of them, from the first on; all if `None`.
        frame: Height and width of the images.
        split: "test", "train" or "validation".
    """
    select_split(source or load_embedded_digits(), split, count)  # complains now, not in an hour
    return lambda size: load_large_scale(
        split, size, source=source, count=count, output_shape=(frame, frame), cache=False
    )


def _official(settings: Settings) -> RunData:
    def load(split, size, count=None):
        return load_official_large_scale(settings.data_dir, split, size, count=count)

    for size in settings.test_sizes:  # a missing file should be missed before the training
        load("test", size, settings.test_digits)
    return RunData(
        concatenate([load("train", size, settings.digits) for size in settings.train_sizes]),
        load("validation", settings.train_sizes[0], _VALIDATION_IMAGES),
        lambda size: load("test", size, settings.test_digits),
    )


def _original(settings: Settings, digits: Digits) -> RunData:
    """The digits as they are, with values in [0, 1]."""

    def load(split, count=None):
        images, labels = select_split(digits, split, count)
        return LargeScale(images[..., None].astype("float32") / 255, labels)

    test = load("test", settings.test_digits)
    return RunData(load("train", settings.digits), load("validation"), lambda size: test)


def concatenate(parts: Sequence[LargeScale]) -> LargeScale:
    """Several sets of images as one; those on disk stay there."""
    if len(parts) == 1:
        return parts[0]
    return LargeScale(
        _Concatenated([part.images for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )


class _Concatenated:
    """Arrays of equal shape one after the other, indexed along the first axis by integers."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        self._arrays = arrays
        self._ends = np.cumsum([len(a) for a in arrays])
        self.shape = (int(self._ends[-1]), *arrays[0].shape[1:])
        self.dtype = arrays[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        index = np.arange(len(self))[index]
        which = np.searchsorted(self._ends, index, side="right")
        result = np.empty((len(index), *self.shape[1:]), self.dtype)
        for k, array in enumerate(self._arrays):
            start = self._ends[k] - len(array)
            result[which == k] = array[index[which == k] - start]
        return result
