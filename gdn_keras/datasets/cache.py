"""Large arrays made once and then mapped from disk, whole or not at all."""

import errno
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from gdn_keras.atomic_files import remove_leftovers, replacing
from gdn_keras.reporting import Reporter

ENVIRONMENT_VARIABLE = "GDN_KERAS_CACHE"


def cache_directory(directory: str | os.PathLike | None = None) -> Path:
    """`directory`, else the environment variable GDN_KERAS_CACHE, else ~/.cache/gdn_keras."""
    directory = directory or os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(directory).expanduser() if directory else Path.home() / ".cache" / "gdn_keras"


def open_array(file: Path, shape: tuple[int, ...], dtype: str) -> np.ndarray | None:
    """Maps a whole array of this shape and type from `file`, or returns `None`."""
    try:
        array = np.lib.format.open_memmap(file, mode="r")
    except (OSError, ValueError, EOFError):
        return None
    whole = file.stat().st_size == array.offset + array.nbytes
    return array if whole and array.shape == shape and array.dtype == dtype else None


def write_array(
    file: Path, shape: tuple[int, ...], dtype: str, chunks: Iterable[np.ndarray]
) -> None:
    """Writes `chunks`, which together have `shape`, as one .npy file.

    The file appears under its name when it is complete, in one step. Any number of processes may
    write the same file at once; each has a temporary file of its own, and the last to end wins.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(file)
    _require_space(file.parent, int(np.prod(shape)) * np.dtype(dtype).itemsize)
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    with replacing(file) as temporary, open(temporary, "wb") as stream:
        np.lib.format.write_array_header_2_0(stream, header)
        for chunk in chunks:
            stream.write(np.ascontiguousarray(chunk, dtype).data)


def with_progress(steps: Iterable, total: int, title: str) -> Iterator:
    """`steps`, shown as they go: by tqdm where it is installed, else by a line on stderr."""
    try:
        from tqdm import tqdm
    except ImportError:
        Reporter(sys.stderr).line(title)
        yield from steps
    else:
        yield from tqdm(steps, total=total, desc=title, leave=False)


def _require_space(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < needed + (64 << 20):
        raise OSError(
            errno.ENOSPC,
            f"The cache needs {needed / 1e9:.2f} GB and only {free / 1e9:.2f} GB are free. Pass "
            f"`cache_dir`, set {ENVIRONMENT_VARIABLE}, or ask for fewer images with `count`",
            str(directory),
        )
