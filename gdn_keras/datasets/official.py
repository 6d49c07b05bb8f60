"""The official MNIST Large Scale files (HDF5, Zenodo 3820247), for those who have them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gdn_keras.checks import check_choice, check_positive, require
from gdn_keras.datasets.digits import SPLITS
from gdn_keras.datasets.image_data import LabelledImages, LazyImages, checked_count
from gdn_keras.datasets.transform import TRAIN_SIZES

if TYPE_CHECKING:
    import h5py

_KEYS = {"train": "train", "validation": "val", "test": "test"}


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
        `LabelledImages`, as from `load_large_scale`: pixels, from which
        `gdn_keras.layers.ArctanContrast` makes the published values again, up to rounding. The
        images stay in the open file, and a slice of them is a NumPy array.

    Raises:
        FileNotFoundError: If the file for this size is not there.
        ValueError: If the file has other keys or shapes than the published ones.
    """
    file = official_file(directory, split, size)
    try:
        import h5py
    except ImportError as error:
        text = "Reading official files needs h5py: pip install gdn_keras[data]"
        raise ImportError(text) from error
    try:
        content = h5py.File(file, "r")
    except OSError as error:
        raise ValueError(f"{file} is damaged or not an HDF5 file: {error}") from error
    try:
        images, labels = _read(content, file, _KEYS[split])
        count = checked_count(count, len(labels))
        return LabelledImages(_Images(images, count), labels[:count])
    except BaseException:
        content.close()
        raise


def official_file(directory: str | os.PathLike, split: str, size: float) -> Path:
    """The published file that holds these images."""
    check_choice("split", split, SPLITS)
    check_positive("size", size)
    number = f"{size:.3f}".replace(".", "p")
    names = [f"mnist_large_scale_te10000_outsize112-112_scte{number}.h5"] * (split == "test")
    if size in TRAIN_SIZES:
        names.append(
            f"mnist_large_scale_tr50000_vl10000_te10000_outsize112-112_sctr{number}_scte{number}.h5"
        )
    else:
        require(split == "test", "size", f"be one of {TRAIN_SIZES} for split={split!r}", size)
    for name in names:
        if (Path(directory).expanduser() / name).is_file():
            return Path(directory).expanduser() / name
    raise FileNotFoundError(
        f"{' and '.join(names)} not found in {directory}. The official files are given out on "
        "request (Zenodo, record 3820247); load_large_scale makes the same images from MNIST."
    )


class _Images(LazyImages):
    """The first `count` images of an HDF5 dataset."""

    def __init__(self, dataset: "h5py.Dataset", count: int) -> None:
        super().__init__((count, *dataset.shape[1:]), "uint8")
        self._dataset = dataset

    def read(self, indices: np.ndarray) -> np.ndarray:
        first, count = (indices[0], len(indices)) if len(indices) else (0, 0)
        if np.array_equal(indices, np.arange(first, first + count)):
            # Many times faster than by index.
            return _pixels(self._dataset[first : first + count])
        ascending, place = np.unique(indices, return_inverse=True)  # as HDF5 wants them
        return _pixels(self._dataset[ascending][place])


def _pixels(published: np.ndarray) -> np.ndarray:
    """I from (2 / pi) arctan(0.02 (I - 128))."""
    return np.rint(np.clip(128 + np.tan(np.pi / 2 * published) / 0.02, 0, 255)).astype("uint8")


def _read(content: "h5py.File", file: Path, key: str) -> tuple["h5py.Dataset", np.ndarray]:
    if missing := [name for name in (f"x_{key}", f"y_{key}") if name not in content]:
        text = f"{file} has no {' and no '.join(missing)}."
        raise ValueError(f"{text} Received: keys {sorted(content)}")
    images, labels = content[f"x_{key}"], content[f"y_{key}"]
    if images.ndim != 4 or images.shape[3] != 1 or labels.size != images.shape[0]:
        raise ValueError(
            f"x_{key} of {file} should have shape [n, height, width, 1] and y_{key} n labels. "
            f"Received: shapes {images.shape} and {labels.shape}"
        )
    return images, np.asarray(labels).ravel().astype("uint8")
