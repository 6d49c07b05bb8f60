"""MNIST, the original 28×28 digits."""

import os

from gdn_keras.checks import check_choice
from gdn_keras.datasets.digit_data import original_data
from gdn_keras.datasets.digits import Digits, load_embedded_digits, load_mnist_tfds
from gdn_keras.datasets.files import require_directory
from gdn_keras.datasets.idx import load_mnist_directory
from gdn_keras.datasets.image_data import ImageData
from gdn_keras.datasets.registry import register_dataset

CLASS_NAMES = tuple("0123456789")
SOURCES = ("embedded", "idx", "tfds")


@register_dataset("mnist")
def mnist(
    directory: str | os.PathLike | None = None,
    *,
    source: str | None = None,
    count: int | None = None,
    test_count: int | None = None,
    test_split: str = "test",
) -> ImageData:
    """MNIST (LeCun et al. 1998) in raw pixels, uint8 `[n, 28, 28, 1]`.

    Args:
        directory: Where its files are; for `"tfds"` the data directory of TFDS.
        source: `"embedded"`, the 5 000 digits of the package; `"idx"`, the four files; or `"tfds"`,
            TensorFlow Datasets. The first if `None` without a directory, the second with one.
        count: Training digits, from the first on; all if `None`.
        test_count: Test digits, from the first on; all if `None`.
        test_split: `"test"`, or `"validation"` to choose between networks without test images.
    """
    digits = load_digits(directory, source)
    return original_data(
        "mnist", digits, CLASS_NAMES, count=count, test_count=test_count, test_split=test_split
    )


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
