"""MNIST's own file format, idx: a big-endian header, then unsigned bytes."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gdn_keras.datasets.digits import Digits

# Names and sha256 sums (of the uncompressed content) of the canonical files.
MNIST_FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}

_MAX_BYTES = 1 << 30  # twenty times MNIST; a gzip file can hold a thousand times its own length


def load_mnist_directory(path: str | os.PathLike, verify: bool = True) -> Digits:
    """MNIST from a directory with its four idx files, gzipped or not.

    Example:

    >>> digits = load_mnist_directory("~/data/mnist")  # doctest: +SKIP
    >>> fashion = load_mnist_directory("~/data/fashion-mnist", verify=False)  # doctest: +SKIP

    Args:
        path: The directory.
        verify: Whether the files must be, by their sha256, those of MNIST. `False` accepts any
            files of the same names and format, such as Fashion-MNIST.

    Raises:
        FileNotFoundError: If the directory or one of the files is missing.
        ValueError: If a file is truncated, damaged or another one.
    """
    directory = Path(path).expanduser()
    if not directory.is_dir():
        raise FileNotFoundError(f"`path` must be a directory. Received: path={str(directory)!r}")
    return load_idx_files([find_idx(directory, name) for name in MNIST_FILES], verify)


def load_idx_files(files: Sequence[str | os.PathLike], verify: bool = True) -> Digits:
    """`Digits` from the four files in the order of `MNIST_FILES`."""
    digits = Digits(
        *(
            read_idx(file, rank=int(name[-7]), sha256=sha256 if verify else None)
            for file, (name, sha256) in zip(files, MNIST_FILES.items(), strict=True)
        )
    )
    for part in (0, 2):
        if len(digits[part]) != len(digits[part + 1]):
            raise ValueError(
                f"{files[part]} and {files[part + 1]} must be of one length. Received: "
                f"{len(digits[part])} images and {len(digits[part + 1])} labels"
            )
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
    size = 4 + 4 * rank + int(np.prod(shape, dtype=object))
    if len(content) != size:
        raise ValueError(
            f"{file} is truncated or damaged: shape {shape} in its header makes {size} bytes. "
            f"Received: {len(content)} bytes"
        )
    if sha256 and hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(
            f"{file} is not the canonical MNIST file: its content should have the sha256 {sha256}. "
            f"Received: {hashlib.sha256(content).hexdigest()}. For other data in this format pass "
            "verify=False."
        )
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
