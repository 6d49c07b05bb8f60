"""CIFAR-10, rescaled in frames that continue the photographs by mirroring."""

import os
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from gdn_keras.checks import check_sizes
from gdn_keras.datasets.image_data import (
    ImageData,
    LabelledImages,
    LazyImages,
    check_test_split,
    checked_count,
    concatenate,
    register_dataset,
)
from gdn_keras.datasets.image_files import require_directory
from gdn_keras.datasets.transform import rescale_photographs

CLASS_NAMES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
CIFAR10_SIZES = tuple(2.0 ** (k / 4) for k in range(-4, 5))

_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
_PIXELS = 3 * 32 * 32
_FOLDER = "cifar-10-batches-bin"


@register_dataset("cifar10")
def cifar10(
    directory: str | os.PathLike | None = None,
    *,
    train_sizes: Sequence[float] = (1.0,),
    test_sizes: Sequence[float] = CIFAR10_SIZES,
    frame: int = 64,
    train_frame: int | None = None,
    count: int | None = None,
    test_count: int | None = None,
    test_split: str = "test",
) -> ImageData:
    """CIFAR-10 (Krizhevsky 2009), rescaled in the manner of Perzanowski and Lindeberg (2025).

    Photographs of 32×32 are rescaled about their middle by cubic splines, smoothed where they
    shrink, and continued by mirroring. The last tenth of the training images is for validation.

    Args:
        directory: With `cifar-10-binary.tar.gz`, or what is in it. The version for Python consists
            of pickles, which this package does not read because they can run anything.
        train_sizes: The sizes to train on; the validation images have the first.
        test_sizes: The sizes to test at.
        frame: Height and width of the test images.
        train_frame: Height and width of training and validation images; `frame` if `None`.
        count: Training photographs, from the first on; all if `None`.
        test_count: Test photographs for each size; all if `None`.
        test_split: `"test"`, or `"validation"` to choose between networks without test images.
    """
    check_sizes("train_sizes", train_sizes)
    check_sizes("test_sizes", test_sizes, minimum=0)
    directory = require_directory(directory, "an archive of CIFAR-10, or what is in it")
    *batches, (test_images, test_labels) = _read_batches(directory)
    images, labels = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    held_out = len(labels) - len(labels) // 10
    if check_test_split(test_split) == "validation":
        test_images, test_labels = images[held_out:], labels[held_out:]
    count = checked_count(count, held_out)
    test_count = checked_count(test_count, len(test_labels))

    def rescaled(part: slice, size: float) -> LabelledImages:
        frames = _rescaled_pictures(images[part], size, train_frame or frame)
        return LabelledImages(frames, labels[part])

    def test(size: float) -> LabelledImages:
        chosen = test_images[:test_count]
        return LabelledImages(rescale_photographs(chosen, size, frame), test_labels[:test_count])

    return ImageData(
        name="cifar10",
        train=concatenate([rescaled(slice(0, count), size) for size in train_sizes]),
        validation=rescaled(slice(held_out, None), train_sizes[0]),
        test=test,
        test_sizes=tuple(test_sizes),
        class_names=CLASS_NAMES,
        preprocessor=keras.layers.Rescaling(1 / 127.5, offset=-1),
        train_sizes=tuple(train_sizes),
    )


def _rescaled_pictures(pictures: np.ndarray, size: float, frame: int) -> LazyImages:
    """Pictures of one size, rescaled into frames as they are read; see `rescale_photographs`."""
    shape = (len(pictures), frame, frame, pictures.shape[3])
    return LazyImages(shape, lambda indices: rescale_photographs(pictures[indices], size, frame))


def _read_batches(directory: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images `[n, 32, 32, 3]` and labels of the five training batches and of the test batch."""
    names = [f"{batch}.bin" for batch in _BATCHES]
    for place in (directory, directory / _FOLDER):
        if all((place / name).is_file() for name in names):
            return [_decode((place / name).read_bytes(), place / name) for name in names]
    archive = directory / "cifar-10-binary.tar.gz"
    if not archive.is_file():
        raise FileNotFoundError(
            "Neither cifar-10-binary.tar.gz (the binary version of CIFAR-10) nor what is in it was "
            f"found in {directory}"
        )
    contents = _unpack(archive, [f"{_FOLDER}/{name}" for name in names])
    return [_decode(content, archive) for content in contents]


def _unpack(archive: Path, names: Sequence[str]) -> list[bytes]:
    """The contents of these members of an archive, in memory: nothing is written."""
    contents = {}
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                wanted = member.name in names and member.isfile()
                content = members.extractfile(member) if wanted else None
                if content is not None:
                    contents[member.name] = content.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{archive} is truncated or damaged: {error}") from error
    missing = [name for name in names if name not in contents]
    if missing:
        raise ValueError(f"{archive} must hold {', '.join(missing)}")
    return [contents[name] for name in names]


def _decode(content: bytes, file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images with their channels last, and labels: one byte of label, then pixels, row by row."""
    if not content or len(content) % (1 + _PIXELS):
        raise ValueError(
            f"{file} must have {1 + _PIXELS} bytes for each image. Received: {len(content)} bytes"
        )
    rows = np.frombuffer(content, "uint8").reshape(-1, 1 + _PIXELS)
    labels = rows[:, 0].copy()
    if labels.max() > 9:
        raise ValueError(f"{file} must hold labels from 0 to 9. Received: {labels.max()}")
    images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), labels
