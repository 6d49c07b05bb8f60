"""Batches of images times a matrix from each side, and the contrast step."""

import math

import numpy as np

GAIN, MIDPOINT, PEAK = 0.02, 128.0, 255.0

_ARCTAN = (1.2732257, -0.423838356, 0.247804114, -0.146975938, 0.0538860514)
_SCRATCH_BYTES = 1 << 20  # stay in the processor's cache from one pass to the next
_BLAS_THREADS_FROM = 1 << 18  # multiplications, in OpenBLAS


def rescale_into(result, planes, vertical, horizontal, contrast) -> None:
    """Writes the rescaled `planes` `[n, channels, h, w]` into `result`, a cacheful at a time."""
    rows, columns = _nonzero_rows(vertical), _nonzero_rows(horizontal)
    vertical = np.ascontiguousarray(vertical[rows].T, "float32")
    horizontal = np.ascontiguousarray(horizontal[columns].T, "float32")
    result[...] = background(contrast)
    _, channels, height, width = planes.shape
    shape = channels, vertical.shape[1], horizontal.shape[1]
    step = max(1, _SCRATCH_BYTES // (4 * math.prod(shape)))
    scratch = np.empty((3, min(step, len(planes)), *shape), "float32")
    for start in range(0, len(planes), step):
        chunk = np.ascontiguousarray(planes[start : start + step].swapaxes(2, 3), "float32")
        chunk = _product(chunk.reshape(-1, height), vertical)
        chunk = chunk.reshape(-1, channels, width, shape[1])
        chunk = np.ascontiguousarray(chunk.swapaxes(2, 3)).reshape(-1, width)
        images, *spare = scratch[:, : len(planes[start : start + step])]
        _product(chunk, horizontal, out=images.reshape(-1, shape[2]))
        if contrast == "arctan":
            _stretch_contrast(images, *spare)
        result[start : start + step, :, rows, columns] = images


def _product(left, right, out=None) -> np.ndarray:
    """`left @ right` in pieces too small for BLAS to start threads, which would fight ours."""
    out = np.empty((len(left), right.shape[1]), "float32") if out is None else out
    step = max(1, _BLAS_THREADS_FROM // right.size)
    for start in range(0, len(left), step):
        piece = slice(start, start + step)
        np.matmul(left[piece], right, out=out[piece])
    return out


def _nonzero_rows(matrix: np.ndarray) -> slice:
    """The rows that the image reaches: beyond them the result is background, and costs nothing."""
    rows = np.flatnonzero(np.any(matrix, axis=1))
    return slice(rows[0], rows[-1] + 1) if len(rows) else slice(0, 1)


def _stretch_contrast(images: np.ndarray, *scratch: np.ndarray) -> None:
    """Steps 3 and 4 of the recipe, in place."""
    peak = images.max(axis=(1, 2, 3), keepdims=True, initial=0)
    images *= np.divide(GAIN * PEAK, peak, out=np.zeros_like(peak), where=peak > 0)
    images -= np.float32(GAIN * MIDPOINT)
    _arctan(images, *scratch)


def _arctan(z: np.ndarray, t: np.ndarray, square: np.ndarray) -> None:
    """`z[:] = (2 / pi) * np.arctan(z)` for |z| < 2.86, to 1e-6, twice as fast as `np.arctan`.

    By arctan(z) = 2 arctan(t), t = z / (1 + sqrt(1 + z²)), and a least-squares polynomial in t.
    """
    np.multiply(z, z, out=t)
    t += 1
    np.sqrt(t, out=t)
    t += 1
    np.divide(z, t, out=t)
    np.multiply(t, t, out=square)
    *lower, highest = np.float32(_ARCTAN)
    np.multiply(square, highest, out=z)
    for coefficient in reversed(lower[1:]):
        z += coefficient
        z *= square
    z += lower[0]
    z *= t


def background(contrast: str | None) -> float:
    return 0.0 if contrast is None else 2 / math.pi * math.atan(-GAIN * MIDPOINT)
