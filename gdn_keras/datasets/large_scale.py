"""MNIST Large Scale: made from MNIST once for each size, then mapped from disk."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from gdn_keras.checks import check_positive
from gdn_keras.datasets.cache import cache_directory, open_array, with_progress, write_array
from gdn_keras.datasets.digits import Digits, load_embedded_digits
from gdn_keras.datasets.image_data import LabelledImages
from gdn_keras.datasets.selection import checked_count
from gdn_keras.datasets.transform import RECIPE, checked_shape, rescale_images
from gdn_keras.reporting import Reporter

SPLITS = ("train", "validation", "test")
DTYPE = "uint8"
_CHUNK = 500


def load_large_scale(
    split: str,
    size: float,
    *,
    source: Digits | None = None,
    count: int | None = None,
    output_shape: tuple[int, int] = (112, 112),
    cache: bool = True,
    cache_dir: str | os.PathLike | None = None,
    verbose: bool = True,
) -> LabelledImages:
    """MNIST Large Scale at one size: made on the first call, mapped from disk after that.

    Example:

    >>> images, labels = load_large_scale("test", size=2, count=100)  # doctest: +SKIP
    >>> images.shape, images.dtype, labels.shape  # doctest: +SKIP
    ((100, 112, 112, 1), dtype('uint8'), (100,))

    Args:
        split: `"train"`, `"validation"` or `"test"`. The validation images are the last of the
            training images: 10 000 of MNIST's 60 000, a tenth of any other number.
        size: Positive scale factor; see `TRAIN_SIZES` and `TEST_SIZES` for the published ones.
        source: The digits: those of `load_embedded_digits()` if `None`, or those of
            `load_mnist_directory(path)` or `load_mnist_tfds()`.
        count: How many images, from the first on; all if `None`.
        output_shape: Height and width of the images.
        cache: Whether to keep the images on disk; `False` makes them anew, in memory.
        cache_dir: Where; the environment variable GDN_KERAS_CACHE if `None`, else
            ~/.cache/gdn_keras. 10 000 images of 112×112 take 125 MB, 50 000 take 630 MB.
        verbose: Whether to say what a build takes, and show its progress, on stderr.

    Returns:
        `LabelledImages`: uint8 `[n, *output_shape, 1]`, brightest pixel 255, and labels `[n]`. The
        published images are `gdn_keras.layers.ArctanContrast()` of these, up to rounding: the
        networks hold that layer.

    Raises:
        ValueError: If an argument is out of range.
        OSError: If the disk has no room, or the directory cannot be written to.
    """
    check_positive("size", size)
    output_shape = checked_shape(output_shape)
    digits, labels = select_split(
        load_embedded_digits() if source is None else source, split, count
    )
    shape = (len(digits), *output_shape, 1)
    if not cache:
        images = np.empty(shape, DTYPE)
        for start, chunk in _chunks(digits, size, output_shape):
            images[start : start + len(chunk)] = chunk
        return LabelledImages(images, labels)

    name = f"mnist_large_scale-{split}-size{size:.4g}-{len(digits)}"
    file = cache_directory(cache_dir) / f"{name}-{_fingerprint(digits, size, output_shape)}.npy"
    images = open_array(file, shape, DTYPE)
    if images is None or not _is_intact(images, digits, size):
        _build(file, shape, digits, size, verbose)
        images = open_array(file, shape, DTYPE)
        if images is None:
            raise OSError(f"{file} was written but cannot be read back")
    return LabelledImages(images, labels)


def _build(
    file: Path, shape: tuple[int, ...], digits: np.ndarray, size: float, verbose: bool
) -> None:
    chunks = (chunk for _, chunk in _chunks(digits, size, (shape[1], shape[2])))
    if verbose:
        megabytes = np.prod(shape) * np.dtype(DTYPE).itemsize / 1e6
        Reporter(sys.stderr).line(
            f"Making {shape[0]} images of size {size:.4g}: {megabytes:.0f} MB in {file.parent}"
        )
        chunks = with_progress(chunks, -(-shape[0] // _CHUNK), f"size {size:.4g}")
    write_array(file, shape, DTYPE, chunks)


def _chunks(
    digits: np.ndarray, size: float, output_shape: tuple[int, int]
) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, len(digits), _CHUNK):
        yield start, rescaled_pixels(digits[start : start + _CHUNK], size, output_shape)


def rescaled_pixels(
    digits: np.ndarray, size: float, output_shape: tuple[int, int] = (112, 112)
) -> np.ndarray:
    """Digits by the recipe of `rescale_images`, rounded to pixels, uint8 `[n, h, w, 1]`."""
    return np.rint(rescale_images(digits, size, output_shape))[..., None].astype(DTYPE)


def _is_intact(images: np.ndarray, digits: np.ndarray, size: float) -> bool:
    """Makes the first and the last image again: a file cut short and filled with zeros is found."""
    ends = [0, len(digits) - 1]
    fresh = rescaled_pixels(digits[ends], size, images.shape[1:3]).astype("int16")
    return bool(np.abs(images[ends] - fresh).max() <= 1)


def _fingerprint(digits: np.ndarray, size: float, output_shape: tuple[int, int]) -> str:
    facts = {
        "recipe": RECIPE,
        "dtype": DTYPE,
        "size": float(size),
        "output_shape": output_shape,
        "shape": digits.shape,
        "digits": hashlib.sha256(np.ascontiguousarray(digits).data).hexdigest(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def select_split(
    source: Digits, split: str, count: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of a split, checked."""
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {SPLITS}. Received: split={split!r}")
    if not isinstance(source, Sequence) or len(source) != 4:
        raise ValueError(f"`source` must be `Digits`, four arrays. Received: source={source!r}")
    images, labels = source[2:] if split == "test" else source[:2]
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ValueError(
            "`source` must hold images [n, height, width] and as many labels [n]. "
            f"Received: shapes {images.shape} and {labels.shape}"
        )
    if split != "test":
        validation = 10_000 if len(images) == 60_000 else len(images) // 10
        part = slice(len(images) - validation, None)
        part = part if split == "validation" else slice(0, part.start)
        images, labels = images[part], labels[part]
    count = checked_count(count, len(images))
    return images[:count], labels[:count]
