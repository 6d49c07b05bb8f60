"""Batches of images times a matrix from each side."""

import math

import numpy as np

from gdn_keras.datasets.contrast import BACKGROUND, stretch_in_place

_SCRATCH_BYTES = 1 << 20  # stay in the processor's cache from one pass to the next
_BLAS_THREADS_FROM = 1 << 18  # multiplications, in OpenBLAS


def rescale_into(
    result: np.ndarray,
    planes: np.ndarray,
    vertical: np.ndarray,
    horizontal: np.ndarray,
    contrast: str | None,
) -> None:
    """Writes the rescaled `planes` `[n, channels, h, w]` into `result`, a cacheful at a time."""
    rows, columns = _nonzero_rows(vertical), _nonzero_rows(horizontal)
    vertical = np.ascontiguousarray(vertical[rows], "float32")
    horizontal = np.ascontiguousarray(horizontal[columns].T, "float32")
    inside = result[:, :, rows, columns]
    if inside.shape != result.shape:
        result[...] = 0.0 if contrast is None else BACKGROUND
    width, output_width = horizontal.shape
    step = min(len(planes), -(-_SCRATCH_BYTES // (4 * math.prod(inside.shape[1:]))))
    scratch = np.empty((3, step, *inside.shape[1:]), "float32")
    stretched = np.empty((step, *planes.shape[1:3], output_width), "float32")
    for start in range(0, len(planes), step or 1):
        target = inside[start : start + step]
        images, *spare = scratch[:, : len(target)]
        if target.flags.c_contiguous:
            images = target
        chunk = planes[start : start + step].astype("float32").reshape(-1, width)
        middle = stretched[: len(target)]
        _product(chunk, horizontal, out=middle.reshape(-1, output_width))
        _product(vertical, middle, out=images)
        if contrast == "arctan":
            stretch_in_place(images, *spare)
        if images is not target:
            target[...] = images


def _product(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """`out[:] = left @ right` in pieces for which BLAS starts no threads: they would fight ours."""
    step = max(1, _BLAS_THREADS_FROM // math.prod(right.shape[-2:]))
    for start in range(0, left.shape[-2], step):
        piece = slice(start, start + step)
        np.matmul(left[..., piece, :], right, out=out[..., piece, :])


def _nonzero_rows(matrix: np.ndarray) -> slice:
    """The rows that the image reaches: beyond them the result is background, and costs nothing."""
    rows = np.flatnonzero(np.any(matrix, axis=1))
    return slice(rows[0], rows[-1] + 1) if len(rows) else slice(0, 1)
