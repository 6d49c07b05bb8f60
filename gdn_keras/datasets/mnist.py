"""MNIST and MNIST Large Scale as `ImageData`, and other 28×28 images in the same two ways."""

import os
from collections.abc import Sequence
from typing import Any

import keras

from gdn_keras.checks import check_sizes
from gdn_keras.datasets.digits import Digits, load_digits, select_split
from gdn_keras.datasets.image_data import (
    ImageData,
    LabelledImages,
    check_test_split,
    concatenate,
    register_dataset,
)
from gdn_keras.datasets.image_files import require_directory
from gdn_keras.datasets.large_scale import (
    load_large_scale,
    load_official_large_scale,
    official_file,
)
from gdn_keras.datasets.transform import TEST_SIZES
from gdn_keras.layers import ArctanContrast

CLASS_NAMES = tuple("0123456789")
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
    digits = directory if source == "official" else load_digits(directory, source)
    return large_scale_data("mnist_large_scale", digits, CLASS_NAMES, **options)


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
        count, test_count: Training and test images, from the first on; all if `None`.
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
    name: str,
    digits: Digits | str | os.PathLike | None,
    class_names: Sequence[str],
    *,
    train_sizes: Sequence[float] = (2.0,),
    test_sizes: Sequence[float] = TEST_SIZES,
    frame: int = 112,
    train_frame: int | None = None,
    count: int | None = None,
    test_count: int | None = None,
    test_split: str = "test",
) -> ImageData:
    """The images by the recipe of MNIST Large Scale; training images alone are kept in the cache.

    Args:
        name: Of the data set.
        digits: The images, or the folder of the official files.
        class_names: What the labels mean.
        train_sizes: The sizes to train on; with several, every digit comes at each of them. The
            validation images have the first.
        test_sizes: The sizes to test at.
        frame: Height and width of the test images.
        train_frame: Height and width of training and validation images; `frame` if `None`.
        count, test_count, test_split: As in `original_data`, for each size.
    """
    check_sizes("train_sizes", train_sizes)
    check_sizes("test_sizes", test_sizes, minimum=0)
    check_test_split(test_split)
    side, held_out = train_frame or frame, VALIDATION_IMAGES
    # What cannot be tested is found now, and not after the training.
    if isinstance(digits, tuple):
        select_split(digits, test_split, test_count)
        held_out = min(held_out, len(select_split(digits, "validation")[1]))
    else:
        directory = require_directory(digits, "the official files")
        if {frame, side} != {_OFFICIAL_FRAME}:
            text = f"`frame` and `train_frame` must be {_OFFICIAL_FRAME}, as in the official files."
            raise ValueError(f"{text} Received: {frame=}, {train_frame=}")
        for size in test_sizes:
            official_file(directory, test_split, size)

    def load(split: str, size: float, count: int | None, side: int) -> LabelledImages:
        if not isinstance(digits, tuple):
            return load_official_large_scale(directory, split, size, count=count)
        options = {"output_shape": (side, side), "cache": split == "train"}
        return load_large_scale(split, size, source=digits, count=count, **options)

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
