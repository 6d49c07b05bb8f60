"""MNIST Large Scale: made from MNIST once for each size, or read from its official files."""

import errno
import hashlib
import io
import itertools
import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gdn_keras.atomic_files import remove_leftovers, replacing
from gdn_keras.checks import check_choice, check_positive, require
from gdn_keras.datasets.digits import SPLITS, Digits, load_embedded_digits, select_split
from gdn_keras.datasets.image_data import LabelledImages, LazyImages, checked_count
from gdn_keras.datasets.transform import RECIPE, TRAIN_SIZES, checked_shape, rescale_images
from gdn_keras.reporting import Reporter

DTYPE = "uint8"
ENVIRONMENT_VARIABLE = "GDN_KERAS_CACHE"
_CHUNK = 500
_KEYS = {"train": "train", "validation": "val", "test": "test"}  # of the official files


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
    """
    check_positive("size", size)
    output_shape = checked_shape(output_shape)
    source = load_embedded_digits() if source is None else source
    digits, labels = select_split(source, split, count)
    shape = (len(digits), *output_shape, 1)
    if not cache:
        made = itertools.chain.from_iterable(rescaled_chunks(digits, size, output_shape))
        return LabelledImages(np.fromiter(made, (DTYPE, shape[1:]), len(digits)), labels)

    name = f"mnist_large_scale-{split}-size{size:.4g}-{len(digits)}"
    file = cache_directory(cache_dir) / f"{name}-{_fingerprint(digits, size, output_shape)}.npy"
    images = open_array(file, shape)
    if images is None or not _is_intact(images, digits, size):
        reporter = Reporter(sys.stderr if verbose else io.StringIO())
        text = f"Making {len(digits)} images of size {size:.4g}: {math.prod(shape) / 1e6:.0f} MB"
        reporter.line(f"{text} in {file.parent}")
        _write_array(file, shape, rescaled_chunks(digits, size, output_shape, reporter))
        images = np.lib.format.open_memmap(file, mode="r")
    return LabelledImages(images, labels)


def rescaled_chunks(
    digits: np.ndarray,
    size: float,
    output_shape: tuple[int, int] = (112, 112),
    reporter: Reporter | None = None,
) -> Iterator[np.ndarray]:
    """Digits by the recipe of `rescale_images`, rounded to pixels, uint8 `[m, h, w, 1]` each."""
    for start in range(0, len(digits), _CHUNK):
        images = rescale_images(digits[start : start + _CHUNK], size, output_shape)
        yield np.rint(images)[..., None].astype(DTYPE)
        if reporter:
            reporter.update(f"size {size:.4g}: {start + len(images)} images")


def _is_intact(images: np.ndarray, digits: np.ndarray, size: float) -> bool:
    """Makes the first and the last image again: a file cut short and filled with zeros is found."""
    ends = [0, len(digits) - 1]
    [fresh] = rescaled_chunks(digits[ends], size, images.shape[1:3])
    return bool(np.abs(images[ends] - fresh.astype("int16")).max() <= 1)


def _fingerprint(digits: np.ndarray, size: float, output_shape: tuple[int, int]) -> str:
    facts = [RECIPE, DTYPE, float(size), output_shape, digits.shape]
    facts.append(hashlib.sha256(np.ascontiguousarray(digits).data).hexdigest())
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def cache_directory(directory: str | os.PathLike | None = None) -> Path:
    """`directory`, else the environment variable GDN_KERAS_CACHE, else ~/.cache/gdn_keras."""
    directory = directory or os.environ.get(ENVIRONMENT_VARIABLE) or "~/.cache/gdn_keras"
    return Path(directory).expanduser()


def open_array(file: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """Maps a whole array of this shape from `file`, or returns `None`."""
    try:
        array = np.lib.format.open_memmap(file, mode="r")
    except (OSError, ValueError, EOFError):
        return None
    whole = file.stat().st_size == array.offset + array.nbytes
    return array if whole and array.shape == shape and array.dtype == DTYPE else None


def _write_array(file: Path, shape: tuple[int, ...], chunks: Iterable[np.ndarray]) -> None:
    """Writes `chunks`, which together have `shape`, as one .npy file, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(file)
    needed, free = math.prod(shape), shutil.disk_usage(file.parent).free
    if free < needed + (64 << 20):
        text = f"The cache needs {needed / 1e9:.2f} GB and only {free / 1e9:.2f} GB are free. Pass "
        text += f"`cache_dir`, set {ENVIRONMENT_VARIABLE}, or ask for fewer images with `count`"
        raise OSError(errno.ENOSPC, text, str(file.parent))
    header = {"descr": np.dtype(DTYPE).str, "fortran_order": False, "shape": shape}
    # Not through a memory map: on a disk that becomes full, writing to it ends the process.
    with replacing(file) as temporary, open(temporary, "wb") as stream:
        np.lib.format.write_array_header_2_0(stream, header)
        for chunk in chunks:
            stream.write(np.ascontiguousarray(chunk).data)


def load_official_large_scale(
    directory: str | os.PathLike, split: str, size: float, *, count: int | None = None
) -> LabelledImages:
    """The published images of MNIST Large Scale, read from disk as they are indexed.

    Args:
        directory: Where the files are, under the names they were published with, such as
            `mnist_large_scale_te10000_outsize112-112_scte0p595.h5`.
        split: `"train"`, `"validation"` or `"test"`; the first two exist for sizes 1, 2 and 4.
        size: Scale factor, one of `TEST_SIZES`, rounded or not.
        count: How many images, from the first on; all if `None`.

    Returns:
        `LabelledImages` as from `load_large_scale`; the images stay in the open file.
    """
    images, labels = _open(official_file(directory, split, size), _KEYS[split])
    count = checked_count(count, len(labels))

    def read(indices: np.ndarray) -> np.ndarray:
        first = indices[0] if len(indices) else 0
        part = slice(first, first + len(indices))
        if np.array_equal(indices, np.arange(part.start, part.stop)):
            return _pixels(images[part])  # many times faster than by index
        ascending, place = np.unique(indices, return_inverse=True)  # as HDF5 wants them
        return _pixels(images[ascending][place])

    return LabelledImages(LazyImages((count, *images.shape[1:]), read), labels[:count])


def official_file(directory: str | os.PathLike, split: str, size: float) -> Path:
    """The published file that holds these images."""
    check_choice("split", split, SPLITS)
    check_positive("size", size)
    must = f"be one of {TRAIN_SIZES} for split={split!r}"
    require(split == "test" or size in TRAIN_SIZES, "size", must, size)
    number = f"{size:.3f}".replace(".", "p")
    names = [f"te10000_outsize112-112_scte{number}"] * (split == "test")
    if size in TRAIN_SIZES:
        names.append(f"tr50000_vl10000_te10000_outsize112-112_sctr{number}_scte{number}")
    names = [f"mnist_large_scale_{name}.h5" for name in names]
    for name in names:
        if (Path(directory).expanduser() / name).is_file():
            return Path(directory).expanduser() / name
    raise FileNotFoundError(
        f"{' and '.join(names)} not found in {directory}. The official files are given out on "
        "request (Zenodo, record 3820247); load_large_scale makes the same images from MNIST."
    )


def _pixels(published: np.ndarray) -> np.ndarray:
    """I from (2 / pi) arctan(0.02 (I - 128))."""
    return np.rint(np.clip(128 + np.tan(np.pi / 2 * published) / 0.02, 0, 255)).astype("uint8")


def _open(file: Path, key: str) -> tuple[Any, np.ndarray]:
    """The images of an official file, as an HDF5 dataset, and their labels."""
    try:
        import h5py
    except ImportError as error:
        text = "Reading official files needs h5py: pip install gdn_keras[data]"
        raise ImportError(text) from error
    try:
        content: Any = h5py.File(file, "r")
    except OSError as error:
        raise ValueError(f"{file} is damaged or not an HDF5 file: {error}") from error
    if missing := [name for name in (f"x_{key}", f"y_{key}") if name not in content]:
        text = f"{file} has no {' and no '.join(missing)}."
        raise ValueError(f"{text} Received: keys {sorted(content)}")
    images, labels = content[f"x_{key}"], content[f"y_{key}"]
    if images.ndim != 4 or images.shape[3] != 1 or labels.size != images.shape[0]:
        text = f"x_{key} of {file} should have shape [n, height, width, 1] and y_{key} n labels."
        raise ValueError(f"{text} Received: shapes {images.shape} and {labels.shape}")
    return images, np.asarray(labels).ravel().astype("uint8")
