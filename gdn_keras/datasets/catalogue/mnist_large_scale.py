"""MNIST Large Scale: digits from half to eight times their size."""

import os
from collections.abc import Sequence

from gdn_keras.checks import check_sizes
from gdn_keras.datasets.catalogue.mnist import CLASS_NAMES, load_digits
from gdn_keras.datasets.digit_data import VALIDATION_IMAGES, large_scale_data
from gdn_keras.datasets.files import require_directory
from gdn_keras.datasets.image_data import ImageData, LabelledImages, concatenate
from gdn_keras.datasets.official import load_official_large_scale, official_file
from gdn_keras.datasets.registry import register_dataset
from gdn_keras.datasets.selection import check_test_split
from gdn_keras.datasets.transform import TEST_SIZES
from gdn_keras.layers import ArctanContrast

NAME = "mnist_large_scale"


@register_dataset(NAME)
def mnist_large_scale(
    directory: str | os.PathLike | None = None,
    *,
    source: str | None = None,
    train_sizes: Sequence[float] = (2.0,),
    test_sizes: Sequence[float] = TEST_SIZES,
    frame: int = 112,
    train_frame: int | None = None,
    count: int | None = None,
    test_count: int | None = None,
    test_split: str = "test",
) -> ImageData:
    """MNIST Large Scale (Jansson and Lindeberg 2020): made from MNIST, or the official files.

    Args:
        directory, source: As for "mnist"; `source="official"` reads the published HDF5 files.
        train_sizes: The sizes to train on; with several, every digit comes at each of them.
        test_sizes: The sizes to test at.
        frame: Height and width of the test images.
        train_frame: Height and width of training and validation images; `frame` if `None`.
        count: Training digits, from the first on; all if `None`.
        test_count: Test digits for each size; all if `None`.
        test_split: `"test"`, or `"validation"` to choose between networks without test images; of
            the official files, these have the sizes 1, 2 and 4 only.

    Returns:
        `ImageData` of uint8 images. The published images have the contrast of `ArctanContrast`;
        here it is the preprocessor of the network.
    """
    if source == "official":
        if {frame, train_frame or frame} != {112}:
            raise ValueError(
                "`frame` and `train_frame` must be 112, as in the official files. "
                f"Received: frame={frame}, train_frame={train_frame}"
            )
        return _official(
            directory, train_sizes, test_sizes, count, test_count, check_test_split(test_split)
        )
    return large_scale_data(
        NAME,
        load_digits(directory, source),
        CLASS_NAMES,
        train_sizes=train_sizes,
        test_sizes=test_sizes,
        frame=frame,
        train_frame=train_frame,
        count=count,
        test_count=test_count,
        test_split=test_split,
    )


def _official(
    directory: str | os.PathLike | None,
    train_sizes: Sequence[float],
    test_sizes: Sequence[float],
    count: int | None,
    test_count: int | None,
    test_split: str,
) -> ImageData:
    check_sizes("train_sizes", train_sizes)
    check_sizes("test_sizes", test_sizes, minimum=0)
    directory = require_directory(directory, "the official MNIST Large Scale files")
    for size in test_sizes:
        official_file(directory, test_split, size)  # missed now, not after the training

    def load(split: str, size: float, count: int | None) -> LabelledImages:
        return load_official_large_scale(directory, split, size, count=count)

    return ImageData(
        name=NAME,
        train=concatenate([load("train", size, count) for size in train_sizes]),
        validation=load("validation", train_sizes[0], VALIDATION_IMAGES),
        test=lambda size: load(test_split, size, test_count),
        test_sizes=tuple(test_sizes),
        class_names=CLASS_NAMES,
        preprocessor=ArctanContrast(),
        train_sizes=tuple(train_sizes),
    )
