"""Fashion-MNIST, as it is and rescaled in the manner of MNIST Large Scale."""

import os
from typing import Any

from gdn_keras.datasets.digits import Digits, load_mnist_directory
from gdn_keras.datasets.image_data import ImageData, register_dataset
from gdn_keras.datasets.image_files import require_directory
from gdn_keras.datasets.mnist import large_scale_data, original_data

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
def fashion_mnist(directory: str | os.PathLike | None = None, **options: Any) -> ImageData:
    """Fashion-MNIST (Xiao et al. 2017) in raw pixels, uint8 `[n, 28, 28, 1]`.

    Args:
        directory: Where its four idx files are, gzipped or not.
        **options: `count`, `test_count` and `test_split`, as for "mnist".
    """
    return original_data("fashion_mnist", _load(directory), CLASS_NAMES, **options)


@register_dataset("fashion_mnist_large_scale")
def fashion_mnist_large_scale(
    directory: str | os.PathLike | None = None, **options: Any
) -> ImageData:
    """Fashion-MNIST by the recipe of MNIST Large Scale.

    Clothes are 28 pixels high where digits are 20: at size 4 they fill a frame of 112 pixels.

    Args:
        directory: As for "fashion_mnist".
        **options: Those of "mnist_large_scale" without `source`.
    """
    return large_scale_data("fashion_mnist_large_scale", _load(directory), CLASS_NAMES, **options)


def _load(directory: str | os.PathLike | None) -> Digits:
    directory = require_directory(directory, "the four Fashion-MNIST files")
    return load_mnist_directory(directory, verify=False)
