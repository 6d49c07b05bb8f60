"""MNIST digits from the package itself, from a directory or from TensorFlow Datasets."""

import hashlib
import importlib.resources
import io
import os
import urllib.error
import urllib.request
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

EMBEDDED_FILE = "embedded_digits.npz"
EMBEDDED_SHA256 = "ea778bc44e6e68b132050fcf4facb5c9b6dc025659e537fa47dedab4862d9cef"

# Of the pixels alone, in the order of the canonical files.
_TFDS_SHA256 = {
    "train": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
    "test": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
}


class Digits(NamedTuple):
    """Grey images `[n, height, width]` and integer labels `[n]`, for training and for testing."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def load_embedded_digits() -> Digits:
    """5 000 real MNIST digits that come with the package: no network and nothing to install.

    They are the first 400 of each class of MNIST's training set, and the first 100 of each class of
    its test set, on which no network of this package was trained. Each ten that begin at 0, 10,
    20, … are one of each class, so that the first `10 * n` are balanced for any `n`.

    Returns:
        `Digits` with 4 000 and 1 000 images of 28×28 uint8, labels uint8.
    """
    content = (importlib.resources.files("gdn_keras.datasets") / EMBEDDED_FILE).read_bytes()
    if hashlib.sha256(content).hexdigest() != EMBEDDED_SHA256:
        raise ValueError(
            f"{EMBEDDED_FILE} in the installed package is damaged: its sha256 should be "
            f"{EMBEDDED_SHA256}. Reinstall gdn_keras."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return Digits(**arrays)


def load_mnist_tfds(data_dir: str | os.PathLike | None = None) -> Digits:
    """MNIST from TensorFlow Datasets, in the order of the original files.

    TFDS stores the examples shuffled; here they are put back, so that the first 50 000 of the
    training images are the same as everywhere else.

    Args:
        data_dir: Directory of TFDS; its own default (`~/tensorflow_datasets`) if `None`. A prepared
            `mnist` there is used without any network, otherwise it is downloaded.

    Raises:
        ConnectionError: At once, if `mnist` is neither prepared nor reachable.
    """
    tfds = import_tfds("Loading MNIST from TensorFlow Datasets")
    builder = tfds.builder("mnist", data_dir=data_dir)
    if not builder.is_prepared():
        require_reachable(builder.URL, f"MNIST is not prepared in {builder.data_dir}")
        builder.download_and_prepare()
    return Digits(*_in_original_order(builder, "train"), *_in_original_order(builder, "test"))


def import_tfds(purpose: str) -> ModuleType:
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs tensorflow-datasets: pip install gdn_keras[data]"
        ) from error
    return tfds


def require_reachable(url: str, situation: str, timeout: float = 5.0) -> None:
    """Fails within seconds where TFDS, without a network, would retry for minutes."""
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=timeout).close()
    except urllib.error.HTTPError:
        pass  # the server answered, if only to refuse a directory
    except OSError as error:
        raise ConnectionError(
            f"{situation} and {url} cannot be reached ({error}). Without a network use "
            "load_embedded_digits(), or load_mnist_directory(path) with the four MNIST files."
        ) from error


def _in_original_order(builder: Any, split: str) -> tuple[np.ndarray, np.ndarray]:
    """TFDS sorts its examples by a hash of their index, salted with the name of the split."""
    from tensorflow_datasets.core import hashing

    images, labels = builder.as_dataset(split=split, as_supervised=True, batch_size=-1)
    stored = images.numpy()[..., 0]
    hasher = hashing.Hasher(split)
    order = sorted(range(len(stored)), key=hasher.hash_key)
    restored, restored_labels = np.empty_like(stored), np.empty(len(stored), "uint8")
    restored[order], restored_labels[order] = stored, labels.numpy()
    if hashlib.sha256(restored).hexdigest() != _TFDS_SHA256[split]:
        raise ValueError(
            f"The {split} images of TFDS mnist in {builder.data_dir} are not those of MNIST in the "
            "original order, as their sha256 shows. Use load_mnist_directory(path) instead."
        )
    return restored, restored_labels
