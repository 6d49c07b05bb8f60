"""MNIST digits from the package itself, from idx files or from TensorFlow Datasets."""

import gzip
import hashlib
import importlib.resources
import io
import math
import os
import urllib.error
import urllib.request
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.checks import check_choice, require
from gdn_keras.datasets.image_data import checked_count
from gdn_keras.datasets.image_files import require_directory

EMBEDDED_FILE = "embedded_digits.npz"
EMBEDDED_SHA256 = "ea778bc44e6e68b132050fcf4facb5c9b6dc025659e537fa47dedab4862d9cef"

# Names and sha256 sums (of the uncompressed content) of the canonical files.
MNIST_FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}

SPLITS = ("train", "validation", "test")

_MAX_BYTES = 1 << 30  # twenty times MNIST; a gzip file can hold a thousand times its own length

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


def load_digits(directory: str | os.PathLike | None, source: str | None) -> Digits:
    """The digits of a source; if it is `None`, of the one that goes with `directory`."""
    source = source or ("embedded" if directory is None else "idx")
    check_choice("source", source, ("embedded", "idx", "tfds"))
    if source == "tfds":
        return load_mnist_tfds(directory)
    if source == "idx":
        return load_mnist_directory(directory)
    require(directory is None, "directory", 'be None for source="embedded"', directory)
    return load_embedded_digits()


def load_embedded_digits() -> Digits:
    """5 000 real MNIST digits that come with the package: no network and nothing to install.

    They are the first 400 of each class of MNIST's training set, and the first 100 of each class of
    its test set, on which no network of this package was trained. The first `10 * n` are balanced
    for any `n`.
    """
    content = (importlib.resources.files("gdn_keras.datasets") / EMBEDDED_FILE).read_bytes()
    if hashlib.sha256(content).hexdigest() != EMBEDDED_SHA256:
        text = f"{EMBEDDED_FILE} in the installed package is damaged: its sha256 should be"
        raise ValueError(f"{text} {EMBEDDED_SHA256}. Reinstall gdn_keras.")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return Digits(**arrays)


def load_mnist_directory(directory: str | os.PathLike | None, verify: bool = True) -> Digits:
    """MNIST from a directory with its four idx files, gzipped or not.

    Example:

    >>> digits = load_mnist_directory("~/data/mnist")  # doctest: +SKIP
    >>> fashion = load_mnist_directory("~/data/fashion-mnist", verify=False)  # doctest: +SKIP

    Args:
        directory: Where they are.
        verify: Whether the files must be, by their sha256, those of MNIST. `False` accepts any
            files of the same names and format, such as Fashion-MNIST.
    """
    directory = require_directory(directory, "the four MNIST files")
    return load_idx_files([find_idx(directory, name) for name in MNIST_FILES], verify)


def load_idx_files(files: Sequence[str | os.PathLike], verify: bool = True) -> Digits:
    """`Digits` from the four files in the order of `MNIST_FILES`."""
    ranks, sums = (3, 1, 3, 1), MNIST_FILES.values() if verify else [None] * 4
    digits = Digits(*(read_idx(*file) for file in zip(files, ranks, sums, strict=True)))
    for part in (0, 2):
        images, labels = len(digits[part]), len(digits[part + 1])
        if images != labels:
            text = f"{files[part]} and {files[part + 1]} must be of one length."
            raise ValueError(f"{text} Received: {images} images and {labels} labels")
    return digits


def read_idx(file: str | os.PathLike, rank: int, sha256: str | None = None) -> np.ndarray:
    """One idx file of unsigned bytes with `rank` dimensions, as a uint8 array."""
    content = _read(Path(file))
    magic = bytes((0, 0, 8, rank))
    if content[:4] != magic:
        raise ValueError(
            f"{file} is not an idx file of rank {rank}: it should begin with the bytes "
            f"{magic.hex(' ')}. Received: {content[:4].hex(' ') or 'an empty file'}"
        )
    shape = tuple(np.frombuffer(content[4 : 4 + 4 * rank].ljust(4 * rank, b"\0"), ">u4").tolist())
    size = 4 + 4 * rank + math.prod(shape)
    if len(content) != size:
        text = f"{file} is truncated or damaged: shape {shape} in its header makes {size} bytes."
        raise ValueError(f"{text} Received: {len(content)} bytes")
    received = hashlib.sha256(content).hexdigest()
    if sha256 not in (None, received):
        text = f"{file} is not the canonical MNIST file: it should have the sha256 {sha256}."
        text += f" Received: {received}. For other data in this format pass verify=False."
        raise ValueError(text)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def find_idx(directory: Path, name: str) -> Path:
    """The file of this name in the directory, gzipped or not."""
    for candidate in (name, f"{name}.gz"):
        if (directory / candidate).is_file():
            return directory / candidate
    raise FileNotFoundError(f"Neither {name} nor {name}.gz was found in {directory}")


def _read(file: Path) -> bytes:
    try:
        with gzip.open(file) if file.suffix == ".gz" else open(file, "rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{file} is truncated or not a gzip file: {error}") from error
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{file} must not hold more than {_MAX_BYTES} bytes.")
    return content


def load_mnist_tfds(data_dir: str | os.PathLike | None = None) -> Digits:
    """MNIST from TensorFlow Datasets, in the order of the original files.

    TFDS stores the examples shuffled; here they are put back, so that the first 50 000 of the
    training images are the same as everywhere else.

    Args:
        data_dir: Directory of TFDS; its own default (`~/tensorflow_datasets`) if `None`. A prepared
            `mnist` there is used without any network, otherwise it is downloaded.
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
        text = f"{purpose} needs tensorflow-datasets: pip install gdn_keras[data]"
        raise ImportError(text) from error
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
    place = np.argsort(sorted(range(len(images)), key=hashing.Hasher(split).hash_key))
    restored = images.numpy()[place, ..., 0]
    if hashlib.sha256(restored).hexdigest() != _TFDS_SHA256[split]:
        raise ValueError(
            f"The {split} images of TFDS mnist in {builder.data_dir} are not those of MNIST in the "
            "original order, as their sha256 shows. Use load_mnist_directory(path) instead."
        )
    return restored, labels.numpy()[place].astype("uint8")


def select_split(
    source: Digits, split: str, count: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of a split, checked."""
    check_choice("split", split, SPLITS)
    is_digits = isinstance(source, Sequence) and len(source) == 4
    require(is_digits, "source", "be `Digits`, four arrays", source)
    images, labels = source[2:] if split == "test" else source[:2]
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        text = "`source` must hold images [n, height, width] and as many labels [n]."
        raise ValueError(f"{text} Received: shapes {images.shape} and {labels.shape}")
    if split != "test":
        held_out = 10_000 if len(images) == 60_000 else len(images) // 10
        start = len(images) - held_out
        part = slice(start, None) if split == "validation" else slice(start)
        images, labels = images[part], labels[part]
    count = checked_count(count, len(images))
    return images[:count], labels[:count]
