"""The MNIST Large Scale transform: images at any size, as one matrix from each side.

Resizing about the centre and Gaussian smoothing are both linear and separable, so the two together
are `Y = A X Bᵀ`, with `A` and `B` from `resampling_matrix`: two matrix products for a whole batch.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from gdn_keras.datasets.contrast import arctan_contrast
from gdn_keras.datasets.resampling import check_resampling, resampling_matrix
from gdn_keras.datasets.separable import rescale_into

if TYPE_CHECKING:
    import tensorflow as tf

TRAIN_SIZES = (1, 2, 4)
TEST_SIZES = tuple(2.0 ** (k / 4) for k in range(-4, 13))

# Part of every cache's fingerprint: change it whenever a result of this file changes.
RECIPE = "cubic spline, frame on zeros, sigma 7/8 size, peak 255, (2/pi) arctan(0.02 (I - 128)), 1"

CONTRASTS = ("arctan", None)
_IMAGES_PER_THREAD = 256


def rescale_images(
    images: np.ndarray,
    size: float,
    output_shape: tuple[int, int] = (112, 112),
    *,
    smoothing: float = 7 / 8,
    boundary: str = "zero",
    contrast: str | None = "arctan",
) -> np.ndarray:
    """Rescales images about their centre, by the recipe of MNIST Large Scale.

    1. Cubic spline interpolation by the factor `size`, the image's centre on the centre of the
       output; what reaches beyond the output is cut off.
    2. Gaussian smoothing with standard deviation `smoothing * size` output pixels, on the whole
       plane before the cut. (The published description leaves the order open for large sizes.)
    3. Per image, scaling that brings the maximum to 255.
    4. The soft threshold `(2 / pi) * arctan(0.02 * (I - 128))`, with values in [-0.764, 0.761].

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
    >>> rescale_images(photos, 0.7, (64, 64), boundary="symmetric", contrast=None).shape
    (3, 64, 64, 3)

    Args:
        images: Array `[n, h, w]` or `[n, h, w, channels]`, integers or finite floats.
        size: Positive scale factor: 2 makes everything twice as large.
        output_shape: Height and width of the result.
        smoothing: Standard deviation of the smoothing in *input* pixels; 0 leaves it out.
        boundary: What lies outside the image: `"zero"`, `"symmetric"` (edge pixel repeated) or
            `"replicate"`. Natural images with `size < 1` want `"symmetric"`.
        contrast: `"arctan"` for steps 3 and 4 (pixels must not be negative), `None` to leave the
            values as they are.

    Returns:
        float32 array `[n, *output_shape]` or `[n, *output_shape, channels]`.

    Raises:
        ValueError: If an argument is out of range, or `images` is of another rank or type or
            contains NaN.
    """
    images = _checked_images(images, contrast)
    check_resampling(size, smoothing, boundary)
    colour = images.ndim == 4
    planes = np.moveaxis(images, 3, 1) if colour else images[:, None]
    count, channels, height, width = planes.shape
    output_height, output_width = checked_shape(output_shape)
    vertical = resampling_matrix(height, output_height, size, smoothing, boundary)
    horizontal = resampling_matrix(width, output_width, size, smoothing, boundary)

    result = np.empty((count, channels, output_height, output_width), "float32")
    workers = min(os.cpu_count() or 1, -(-count // _IMAGES_PER_THREAD)) or 1
    shares = [slice(count * i // workers, count * (i + 1) // workers) for i in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(rescale_into, result[share], planes[share], vertical, horizontal, contrast)
            for share in shares
        ]
    for job in jobs:
        job.result()
    return np.ascontiguousarray(np.moveaxis(result, 1, 3)) if colour else result[:, 0]


def rescale_to_sizes(
    images: np.ndarray, sizes: Iterable[float] = TEST_SIZES, **options: Any
) -> dict[float, np.ndarray]:
    """Your own images at many sizes: `{size: rescale_images(images, size, **options)}`.

    Example, how a classifier of yours generalises over scale:

    >>> for size, x in rescale_to_sizes(images, boundary="symmetric", contrast=None).items():
    ...     print(size, classifier.evaluate(x, labels))  # doctest: +SKIP
    """
    return {float(size): rescale_images(images, size, **options) for size in sizes}


def rescale_map(
    size: float,
    output_shape: tuple[int, int] = (112, 112),
    *,
    smoothing: float = 7 / 8,
    boundary: str = "zero",
    contrast: str | None = "arctan",
) -> Callable:
    """`rescale_images` as a TensorFlow function on batches, for `tf.data.Dataset.map`.

    Args: as in `rescale_images`.

    Returns:
        A function from `[n, h, w]` or `[n, h, w, channels]`, with known `h` and `w`, to float32
        `[n, *output_shape, channels]`, where `channels` is 1 for the former.
    """
    import tensorflow as tf

    output_shape = checked_shape(output_shape)
    _checked_contrast(contrast)
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
        if contrast is None:
            return images
        peak = tf.reduce_max(images, axis=(1, 2, 3), keepdims=True)
        return arctan_contrast(images, peak, tf.experimental.numpy)

    return rescale


def _checked_images(images: np.ndarray, contrast: str | None) -> np.ndarray:
    _checked_contrast(contrast)
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
    if contrast == "arctan" and images.dtype.kind != "u" and images.size and images.min() < 0:
        raise ValueError(
            '`images` must not be negative with contrast="arctan". '
            f"Received: a minimum of {images.min()}"
        )
    return images


def _checked_contrast(contrast: str | None) -> None:
    if contrast not in CONTRASTS:
        raise ValueError(f"`contrast` must be one of {CONTRASTS}. Received: contrast={contrast!r}")


def checked_shape(output_shape: tuple[int, int]) -> tuple[int, int]:
    shape = tuple(output_shape) if np.iterable(output_shape) else ()
    if len(shape) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in shape):
        raise ValueError(
            f"`output_shape` must be two positive integers. Received: output_shape={output_shape}"
        )
    return int(shape[0]), int(shape[1])
