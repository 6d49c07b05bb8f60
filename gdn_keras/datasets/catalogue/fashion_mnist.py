"""Fashion-MNIST, as it is and rescaled in the manner of MNIST Large Scale."""

import os
from collections.abc import Sequence

from gdn_keras.datasets.digit_data import large_scale_data, original_data
from gdn_keras.datasets.digits import Digits
from gdn_keras.datasets.files import require_directory
from gdn_keras.datasets.idx import load_mnist_directory
from gdn_keras.datasets.image_data import ImageData
from gdn_keras.datasets.registry import register_dataset
from gdn_keras.datasets.transform import TEST_SIZES

CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


@register_dataset("fashion_mnist")
def fashion_mnist(
    directory: str | os.PathLike | None = None,
    *,
    count: int | None = None,
    test_count: int | None = None,
    test_split: str = "test",
) -> ImageData:
    """Fashion-MNIST (Xiao et al. 2017) in raw pixels, uint8 `[n, 28, 28, 1]`.

    Args:
        directory: Where its four idx files are, gzipped or not.
        count: Training images, from the first on; all if `None`.
        test_count: Test images, from the first on; all if `None`.
        test_split: `"test"`, or `"validation"` to choose between networks without test images.
    """
    return original_data(
        "fashion_mnist",
        _load(directory),
        CLASS_NAMES,
        count=count,
        test_count=test_count,
        test_split=test_split,
    )


@register_dataset("fashion_mnist_large_scale")
def fashion_mnist_large_scale(
    directory: str | os.PathLike | None = None,
    *,
    train_sizes: Sequence[float] = (2.0,),
    test_sizes: Sequence[float] = TEST_SIZES,
    frame: int = 112,
    train_frame: int | None = None,
    count: int | None = None,
    test_count: int | None = None,
    test_split: str = "test",
) -> ImageData:
    """Fashion-MNIST by the recipe of MNIST Large Scale.

    Clothes are 28 pixels high where digits are 20: at size 4 they fill a frame of 112 pixels.

    Args: as for "fashion_mnist" and "mnist_large_scale".
    """
    return large_scale_data(
        "fashion_mnist_large_scale",
        _load(directory),
        CLASS_NAMES,
        train_sizes=train_sizes,
        test_sizes=test_sizes,
        frame=frame,
        train_frame=train_frame,
        count=count,
        test_count=test_count,
        test_split=test_split,
    )


def _load(directory: str | os.PathLike | None) -> Digits:
    directory = require_directory(directory, "the four Fashion-MNIST files")
    return load_mnist_directory(directory, verify=False)
