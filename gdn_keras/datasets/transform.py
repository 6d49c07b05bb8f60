"""The MNIST Large Scale transform: images at any size, as one matrix from each side.

Resizing about the centre and Gaussian smoothing are both linear and separable, so the two together
are `Y = A X Bᵀ`, with `A` and `B` from `resampling_matrix`: two matrix products for a whole batch.
"""

import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from gdn_keras.checks import check_positive
from gdn_keras.datasets.resampling import check_resampling, resampling_matrix

if TYPE_CHECKING:
    import tensorflow as tf

TRAIN_SIZES = (1, 2, 4)
TEST_SIZES = tuple(2.0 ** (k / 4) for k in range(-4, 13))

# Part of every cache's fingerprint: change it whenever a result of this file changes.
RECIPE = "cubic spline, frame on zeros, sigma 7/8 size, peak 255, rounded, 2"

_PEAK = 255.0
_IMAGES_PER_THREAD = 256
_CHUNK_BYTES = 1 << 20  # stay in the processor's cache from one product to the next
_BLAS_THREADS_FROM = 1 << 18  # multiplications, in OpenBLAS


def rescale_images(
    images: np.ndarray,
    size: float,
    output_shape: tuple[int, int] = (112, 112),
    *,
    smoothing: float = 7 / 8,
    boundary: str = "constant",
    peak: float | None = _PEAK,
) -> np.ndarray:
    """Rescales images about their centre, by the recipe of MNIST Large Scale.

    1. Cubic spline interpolation by the factor `size`, the image's centre on the centre of the
       output; what reaches beyond the output is cut off.
    2. Gaussian smoothing with standard deviation `smoothing * size` output pixels, on the whole
       plane before the cut. (The published description leaves the order open for large sizes.)
    3. Per image, scaling that brings the maximum to `peak`. What splines make negative is cut off.

    The soft threshold of the published images is a layer, `gdn_keras.layers.ArctanContrast`.

    For `size >= 1` steps 1 and 2 work on the output's pixels. For `size < 1` they work on a grid of
    at least two points per input pixel, thinned out afterwards, so that the smoothing (7/8 of an
    *input* pixel) also acts against aliasing: within 2e-4 rms of the continuous convolution. On the
    output's pixels size 0.5 would be off by 0.15 rms on the digit.

    Example:

    >>> import numpy as np
    >>> from gdn_keras.datasets import load_embedded_digits, rescale_images
    >>> rescale_images(load_embedded_digits().x_test[:5], size=2).shape
    (5, 112, 112)
    >>> photos = np.random.default_rng(0).random((3, 64, 64, 3))
    >>> rescale_images(photos, 0.7, (64, 64), boundary="symmetric", peak=None).shape
    (3, 64, 64, 3)

    Args:
        images: Array `[n, h, w]` or `[n, h, w, channels]`, integers or finite floats.
        size: Positive scale factor: 2 makes everything twice as large.
        output_shape: Height and width of the result.
        smoothing: Standard deviation of the smoothing in *input* pixels; 0 leaves it out.
        boundary: What lies outside the image: `"constant"` (zero), `"symmetric"` (mirrored, edge
            pixel repeated) or `"edge"`. Natural images with `size < 1` want `"symmetric"`.
        peak: Largest value of each image in the result (pixels must not be negative), or `None` to
            leave values as they are.

    Returns:
        float32 array `[n, *output_shape]` or `[n, *output_shape, channels]`.

    Raises:
        ValueError: If an argument is out of range, or `images` is of another rank or type or
            contains NaN.
    """
    images = _checked_images(images, peak)
    check_resampling(size, smoothing, boundary)
    color = images.ndim == 4
    planes = np.moveaxis(images, 3, 1) if color else images[:, None]
    count, channels, height, width = planes.shape
    output_height, output_width = checked_shape(output_shape)
    vertical = resampling_matrix(height, output_height, size, smoothing, boundary)
    horizontal = resampling_matrix(width, output_width, size, smoothing, boundary)

    result = np.empty((count, channels, output_height, output_width), "float32")
    workers = min(os.cpu_count() or 1, -(-count // _IMAGES_PER_THREAD)) or 1
    shares = [slice(count * i // workers, count * (i + 1) // workers) for i in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(_rescale_into, result[share], planes[share], vertical, horizontal, peak)
            for share in shares
        ]
    for job in jobs:
        job.result()
    return np.ascontiguousarray(np.moveaxis(result, 1, 3)) if color else result[:, 0]


def rescale_to_sizes(
    images: np.ndarray, sizes: Iterable[float] = TEST_SIZES, **options: Any
) -> dict[float, np.ndarray]:
    """Your own images at many sizes: `{size: rescale_images(images, size, **options)}`.

    Example, how a classifier of yours generalises over scale:

    >>> for size, x in rescale_to_sizes(images, boundary="symmetric", peak=None).items():
    ...     print(size, classifier.evaluate(x, labels))  # doctest: +SKIP
    """
    return {float(size): rescale_images(images, size, **options) for size in sizes}


def rescale_map(
    size: float,
    output_shape: tuple[int, int] = (112, 112),
    *,
    smoothing: float = 7 / 8,
    boundary: str = "constant",
    peak: float | None = _PEAK,
) -> Callable:
    """`rescale_images` as a TensorFlow function on batches, for `tf.data.Dataset.map`.

    Args: as in `rescale_images`.

    Returns:
        A function from `[n, h, w]` or `[n, h, w, channels]`, with known `h` and `w`, to float32
        `[n, *output_shape, channels]`, where `channels` is 1 for the former.
    """
    import tensorflow as tf

    output_shape = checked_shape(output_shape)
    _check_peak(peak)
    check_resampling(size, smoothing, boundary)  # here, not inside tf.data

    def rescale(images: "tf.Tensor") -> "tf.Tensor":
        images = images if images.shape.rank == 4 else tf.expand_dims(images, -1)
        images = tf.cast(images, "float32")
        vertical, horizontal = (
            tf.constant(resampling_matrix(length, output, size, smoothing, boundary), "float32")
            for length, output in zip(images.shape[1:3], output_shape, strict=True)
        )
        images = tf.einsum("nhwc,Ww->nhWc", images, horizontal)
        images = tf.einsum("nhWc,Hh->nHWc", images, vertical)
        if peak is None:
            return images
        largest = tf.reduce_max(images, axis=(1, 2, 3), keepdims=True)
        return tf.maximum(images, 0.0) * tf.math.divide_no_nan(peak, tf.maximum(largest, 0.0))

    return rescale


def _rescale_into(
    result: np.ndarray,
    planes: np.ndarray,
    vertical: np.ndarray,
    horizontal: np.ndarray,
    peak: float | None,
) -> None:
    """Writes the rescaled `planes` `[n, channels, h, w]` into `result`, a cacheful at a time."""
    rows, columns = _nonzero_rows(vertical), _nonzero_rows(horizontal)
    vertical = np.ascontiguousarray(vertical[rows], "float32")
    horizontal = np.ascontiguousarray(horizontal[columns].T, "float32")
    inside = result[:, :, rows, columns]
    if inside.shape != result.shape:
        result[...] = 0.0
    step = min(len(planes), -(-_CHUNK_BYTES // (4 * math.prod(inside.shape[1:]))))
    for start in range(0, len(planes), step or 1):
        target = inside[start : start + step]
        images = _product(planes[start : start + step].astype("float32"), horizontal)
        images = _product(vertical, images)
        if peak is not None:
            largest = images.max(axis=(1, 2, 3), keepdims=True, initial=0)
            np.maximum(images, 0, out=images)
            images *= np.divide(peak, largest, out=np.zeros_like(largest), where=largest > 0)
        target[...] = images


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`left @ right` in pieces for which BLAS starts no threads: they would fight ours."""
    step = max(1, _BLAS_THREADS_FROM // math.prod(right.shape[-2:]))
    rows = range(0, left.shape[-2], step)
    return np.concatenate([left[..., i : i + step, :] @ right for i in rows], axis=-2)


def _nonzero_rows(matrix: np.ndarray) -> slice:
    """The rows that the image reaches: beyond them the result is zero, and costs nothing."""
    rows = np.flatnonzero(np.any(matrix, axis=1))
    return slice(rows[0], rows[-1] + 1) if len(rows) else slice(0, 1)


def _checked_images(images: np.ndarray, peak: float | None) -> np.ndarray:
    _check_peak(peak)
    images = np.asarray(images)
    if images.ndim not in (3, 4) or 0 in images.shape[1:]:
        raise ValueError(
            "`images` must have shape [n, height, width] or [n, height, width, channels]. "
            f"Received: images.shape={images.shape}"
        )
    if images.dtype.kind not in "uif":
        raise ValueError(
            f"`images` must be integers or floats. Received: images.dtype={images.dtype}"
        )
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise ValueError("`images` must be finite. Received: NaN or infinite pixels.")
    if peak is not None and images.dtype.kind != "u" and images.size and images.min() < 0:
        raise ValueError(
            "`images` must not be negative where they are brought to a `peak`. "
            f"Received: a minimum of {images.min()}"
        )
    return images


def _check_peak(peak: float | None) -> None:
    if peak is not None:
        check_positive("peak", peak)


def checked_shape(output_shape: tuple[int, int]) -> tuple[int, int]:
    shape = tuple(output_shape) if np.iterable(output_shape) else ()
    if len(shape) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in shape):
        raise ValueError(
            f"`output_shape` must be two positive integers. Received: output_shape={output_shape}"
        )
    return int(shape[0]), int(shape[1])
