"""`ImageData` from 28×28 images: as they are, or by the recipe of MNIST Large Scale."""

from collections.abc import Sequence

import keras

from gdn_keras.checks import check_sizes
from gdn_keras.datasets.digits import Digits
from gdn_keras.datasets.image_data import ImageData, LabelledImages, concatenate
from gdn_keras.datasets.large_scale import load_large_scale, select_split
from gdn_keras.datasets.selection import check_test_split
from gdn_keras.datasets.transform import TEST_SIZES
from gdn_keras.layers import ArctanContrast

VALIDATION_IMAGES = 2000  # at most, so that watching a long training costs little of its time


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
    name: str,
    digits: Digits,
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
    """The images rescaled by `load_large_scale`, which keeps training images in its cache.

    Test images are made when they are asked for and kept nowhere: that takes a hundredth of the
    time that a network needs for them.

    Args:
        name, digits, class_names: As in `original_data`.
        train_sizes: The sizes to train on; with several, every digit comes at each of them. The
            validation images have the first.
        test_sizes: The sizes to test at.
        frame: Height and width of the test images.
        train_frame: Height and width of training and validation images; `frame` if `None`.
        count: Training digits, from the first on; all if `None`.
        test_count: Test digits for each size; all if `None`.
        test_split: As in `original_data`.
    """
    check_sizes("train_sizes", train_sizes)
    check_sizes("test_sizes", test_sizes, minimum=0)
    side = train_frame or frame
    held_out = min(VALIDATION_IMAGES, len(select_split(digits, "validation")[1]))
    check_test_split(test_split)
    select_split(digits, test_split, test_count)  # complains now, not after the training
    train = [
        load_large_scale("train", size, source=digits, count=count, output_shape=(side, side))
        for size in train_sizes
    ]
    validation = load_large_scale(
        "validation",
        train_sizes[0],
        source=digits,
        count=held_out,
        output_shape=(side, side),
        cache=False,
    )

    def test(size: float) -> LabelledImages:
        return load_large_scale(
            test_split,
            size,
            source=digits,
            count=test_count,
            output_shape=(frame, frame),
            cache=False,
        )

    return ImageData(
        name=name,
        train=concatenate(train),
        validation=validation,
        test=test,
        test_sizes=tuple(test_sizes),
        class_names=tuple(class_names),
        preprocessor=ArctanContrast(),
        train_sizes=tuple(train_sizes),
    )
