"""MNIST and MNIST Large Scale as `ImageData`, and other 28×28 images in the same two ways."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import keras

from gdn_keras.checks import check_choice, check_sizes
from gdn_keras.datasets.digits import (
    Digits,
    load_embedded_digits,
    load_mnist_directory,
    load_mnist_tfds,
)
from gdn_keras.datasets.image_data import ImageData, LabelledImages, concatenate
from gdn_keras.datasets.image_files import require_directory
from gdn_keras.datasets.large_scale import load_large_scale
from gdn_keras.datasets.official import load_official_large_scale, official_file
from gdn_keras.datasets.registry import register_dataset
from gdn_keras.datasets.splits import check_test_split, select_split
from gdn_keras.datasets.transform import TEST_SIZES
from gdn_keras.layers import ArctanContrast

CLASS_NAMES = tuple("0123456789")
SOURCES = ("embedded", "idx", "tfds")
VALIDATION_IMAGES = 2000  # at most, so that watching a long training costs little of its time
_OFFICIAL_FRAME = 112


@register_dataset("mnist")
def mnist(
    directory: str | os.PathLike | None = None, *, source: str | None = None, **options: Any
) -> ImageData:
    """MNIST (LeCun et al. 1998) in raw pixels, uint8 `[n, 28, 28, 1]`.

    Args:
        directory: Where its files are; for `"tfds"` the data directory of TFDS.
        source: `"embedded"`, the 5 000 digits of the package; `"idx"`, the four files; or `"tfds"`,
            TensorFlow Datasets. The first if `None` without a directory, the second with one.
        **options: `count`, `test_count` and `test_split`, as in `original_data`.
    """
    return original_data("mnist", load_digits(directory, source), CLASS_NAMES, **options)


@register_dataset("mnist_large_scale")
def mnist_large_scale(
    directory: str | os.PathLike | None = None, *, source: str | None = None, **options: Any
) -> ImageData:
    """MNIST Large Scale (Jansson and Lindeberg 2020): made from MNIST, or the official files.

    Args:
        directory, source: As for "mnist"; `source="official"` reads the published HDF5 files.
        **options: As in `large_scale_data`. The official files have frames of 112, and validation
            images of the sizes 1, 2 and 4 only.

    Returns:
        `ImageData` of uint8 images. The published images have the contrast of `ArctanContrast`;
        here it is the preprocessor of the network.
    """
    if source == "official":
        return _official("mnist_large_scale", directory, **options)
    digits = load_digits(directory, source)
    return large_scale_data("mnist_large_scale", digits, CLASS_NAMES, **options)


def load_digits(directory: str | os.PathLike | None, source: str | None) -> Digits:
    """The digits of one of `SOURCES`, or of the one that goes with `directory` if it is `None`."""
    source = source or ("embedded" if directory is None else "idx")
    check_choice("source", source, SOURCES)
    if source == "tfds":
        return load_mnist_tfds(directory)
    if source == "idx":
        return load_mnist_directory(require_directory(directory, "the four MNIST files"))
    if directory is not None:
        raise ValueError(
            f'`directory` must be None for source="embedded". Received: directory={directory!r}'
        )
    return load_embedded_digits()


def original_data(
    name: str,
    digits: Digits,
    class_names: Sequence[str],
    *,
    count: int | None = None,
    test_count: int | None = None,
    test_split: str = "test",
) -> ImageData:
    """The images in raw pixels, with one test size: 1.

    Args:
        name: Of the data set.
        digits: The images.
        class_names: What the labels mean.
        count: Training images, from the first on; all if `None`.
        test_count: Test images, from the first on; all if `None`.
        test_split: `"test"`, or `"validation"` to choose between networks without test images.
    """

    def split(part: str, count: int | None = None) -> LabelledImages:
        images, labels = select_split(digits, part, count)
        return LabelledImages(images[..., None], labels)

    test = split(check_test_split(test_split), test_count)
    return ImageData(
        name=name,
        train=split("train", count),
        validation=split("validation"),
        test=lambda size: test,
        test_sizes=(1.0,),
        class_names=tuple(class_names),
        preprocessor=keras.layers.Rescaling(1 / 255),
        train_sizes=(1.0,),
    )


def large_scale_data(
    name: str, digits: Digits, class_names: Sequence[str], **options: Any
) -> ImageData:
    """The images by the recipe of MNIST Large Scale; training images are kept in the cache.

    Test images are made when they are asked for and kept nowhere: that takes a hundredth of the
    time that a network needs for them.

    Args:
        name, digits, class_names: As in `original_data`.
        train_sizes: The sizes to train on, 2 by default; with several, every digit comes at each of
            them. The validation images have the first.
        test_sizes: The sizes to test at; `TEST_SIZES` by default.
        frame: Height and width of the test images, 112 by default.
        train_frame: Height and width of training and validation images; `frame` if `None`.
        count: Training digits, from the first on; all if `None`.
        test_count: Test digits for each size; all if `None`.
        test_split: As in `original_data`.
    """

    def load(split: str, size: float, count: int | None, side: int) -> LabelledImages:
        keep = split == "train"
        return load_large_scale(
            split, size, source=digits, count=count, output_shape=(side, side), cache=keep
        )

    def check(split: str, size: float, count: int | None, side: int) -> None:
        select_split(digits, split, count)

    held_out = min(VALIDATION_IMAGES, len(select_split(digits, "validation")[1]))
    return _rescaled(name, class_names, load, check, held_out, **options)


def _official(name: str, directory: str | os.PathLike | None, **options: Any) -> ImageData:
    def load(split: str, size: float, count: int | None, side: int) -> LabelledImages:
        check(split, size, count, side)
        return load_official_large_scale(str(directory), split, size, count=count)

    def check(split: str, size: float, count: int | None, side: int) -> None:
        if side != _OFFICIAL_FRAME:
            raise ValueError(
                f"`frame` and `train_frame` must be {_OFFICIAL_FRAME}, as in the official files. "
                f"Received: {side}"
            )
        official_file(require_directory(directory, "the official files"), split, size)

    return _rescaled(name, CLASS_NAMES, load, check, VALIDATION_IMAGES, **options)


def _rescaled(
    name: str,
    class_names: Sequence[str],
    load: Callable[[str, float, int | None, int], LabelledImages],
    check: Callable[[str, float, int | None, int], None],
    held_out: int,
    *,
    train_sizes: Sequence[float] = (2.0,),
    test_sizes: Sequence[float] = TEST_SIZES,
    frame: int = 112,
    train_frame: int | None = None,
    count: int | None = None,
    test_count: int | None = None,
    test_split: str = "test",
) -> ImageData:
    """Both take split, size, count and frame; `check` finds errors before a training does."""
    check_sizes("train_sizes", train_sizes)
    check_sizes("test_sizes", test_sizes, minimum=0)
    check_test_split(test_split)
    for size in test_sizes:
        check(test_split, size, test_count, frame)
    side = train_frame or frame
    return ImageData(
        name=name,
        train=concatenate([load("train", size, count, side) for size in train_sizes]),
        validation=load("validation", train_sizes[0], held_out, side),
        test=lambda size: load(test_split, size, test_count, frame),
        test_sizes=tuple(test_sizes),
        class_names=tuple(class_names),
        preprocessor=ArctanContrast(),
        train_sizes=tuple(train_sizes),
    )
