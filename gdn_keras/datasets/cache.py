"""Large arrays made once and then mapped from disk, whole or not at all."""

import contextlib
import errno
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

ENVIRONMENT_VARIABLE = "GDN_KERAS_CACHE"
_ABANDONED_AFTER = 24 * 3600  # seconds after which a temporary file belongs to no living build


def cache_directory(directory: str | os.PathLike | None = None) -> Path:
    """`directory`, else the environment variable GDN_KERAS_CACHE, else ~/.cache/gdn_keras."""
    directory = directory or os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(directory).expanduser() if directory else Path.home() / ".cache" / "gdn_keras"


def open_array(file: Path, shape: tuple[int, ...], dtype: str) -> np.ndarray | None:
    """Maps a whole array of this shape and type from `file`, or returns `None`."""
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
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
    _remove_abandoned(file)
    _require_space(file.parent, int(np.prod(shape)) * np.dtype(dtype).itemsize)
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.", suffix=".part")
    try:
        with open(handle, "wb") as stream:
            np.lib.format.write_array_header_2_0(stream, header)
            for chunk in chunks:
                stream.write(np.ascontiguousarray(chunk, dtype))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def with_progress(steps: Iterable, total: int, title: str) -> Iterator:
    """`steps`, shown as they go: by tqdm where it is installed, else by a line on stderr."""
    try:
        from tqdm import tqdm
    except ImportError:
        print(title, file=sys.stderr, flush=True)
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


def _remove_abandoned(file: Path) -> None:
    """A killed process cannot remove its temporary file; the next build does."""
    for part in file.parent.glob(f"{file.name}.*.part"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > _ABANDONED_AFTER:
                part.unlink()
