"""The MNIST Large Scale transform: images at any size, as one matrix from each side.

Resizing about the center and Gaussian smoothing are both linear and separable, so the two together
are `Y = A X Bᵀ`, with `A` and `B` from `resampling_matrix`: two matrix products for a whole batch.
"""

import functools
import math

import numpy as np
from scipy import ndimage

from gdn_keras.checks import check_boundary, check_non_negative, check_positive, require

TRAIN_SIZES = (1, 2, 4)
TEST_SIZES = tuple(2.0 ** (k / 4) for k in range(-4, 13))

# Part of every cache's fingerprint: change it whenever a result of this file changes.
RECIPE = "cubic spline, frame on zeros, sigma 7/8 size, peak 255, rounded, 2"

# What scipy.ndimage calls each boundary rule; zeros are put in afterwards.
_SPLINE_MODES = {"constant": "reflect", "symmetric": "reflect", "edge": "nearest"}
_PEAK = 255.0
# What a pixel integrates over, about: the standard deviation of its blur, in pixels.
_PIXEL_BLUR = 0.5
_CHUNK = 1000  # photographs that are floats at a time


def rescale_images(
    images: np.ndarray,
    size: float,
    output_shape: tuple[int, int] = (112, 112),
    *,
    smoothing: float = 7 / 8,
    boundary: str = "constant",
    peak: float | None = _PEAK,
) -> np.ndarray:
    """Rescales images about their center, by the recipe of MNIST Large Scale.

    1. Cubic spline interpolation by the factor `size`, the image's center on the center of the
       output; what reaches beyond the output is cut off.
    2. Gaussian smoothing with standard deviation `smoothing * size` output pixels, on the whole
       plane before the cut. (The published description leaves the order open for large sizes.)
    3. Per image, scaling that brings the maximum to `peak`. What splines make negative is cut off.

    The soft threshold of the published images is a layer, `gdn_keras.layers.ArctanContrast`.

    For `size < 1`, steps 1 and 2 work on a grid of at least two points per input pixel, thinned out
    afterwards, so that the smoothing also acts against aliasing: within 2e-4 rms of the continuous
    convolution. On the output's pixels size 0.5 would be off by 0.15 rms on the digit.

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
            leave values unchanged.

    Returns:
        float32 array `[n, *output_shape]` or `[n, *output_shape, channels]`.
    """
    images = _checked_images(images, peak)
    _check_resampling(size, smoothing, boundary)  # before the cache, which cannot hold lists
    shapes = zip(images.shape[1:3], checked_shape(output_shape), strict=True)
    vertical, horizontal = (
        resampling_matrix(length, output, size, smoothing, boundary).astype("float32")
        for length, output in shapes
    )
    # Two large products: many small ones would each wait for BLAS's threads on a busy machine.
    result = np.tensordot(images.astype("float32"), vertical, (1, 1))
    result = np.tensordot(result, horizontal, (1, 1))  # [n, height, width], or with channels before
    if peak is not None:
        largest = result.max(axis=tuple(range(1, result.ndim)), keepdims=True, initial=0)
        np.maximum(result, 0, out=result)
        result *= np.divide(peak, largest, out=np.zeros_like(largest), where=largest > 0)
    return np.ascontiguousarray(np.moveaxis(result, 1, 3)) if images.ndim == 4 else result


def rescale_photographs(
    images: np.ndarray, size: float, frame: int | tuple[int, int], boundary: str = "symmetric"
) -> np.ndarray:
    """Photographs rescaled about their middle by cubic splines, smoothed by `shrink_smoothing`.

    Args:
        images: uint8 `[n, h, w, channels]`.
        size: Positive scale factor; 1 leaves all pixels unchanged.
        frame: Height and width of the result, as one number if they are equal.
        boundary: What lies beyond the photograph, as in `rescale_images`.

    Returns:
        uint8 `[n, height, width, channels]`.
    """
    shape = (frame, frame) if isinstance(frame, int) else frame
    options = {"smoothing": shrink_smoothing(size), "boundary": boundary, "peak": None}
    result = np.empty((len(images), *shape, images.shape[3]), "uint8")
    for start in range(0, len(images), _CHUNK):
        part = slice(start, start + _CHUNK)
        rescaled = rescale_images(images[part], size, shape, **options)
        result[part] = np.clip(np.rint(rescaled, out=rescaled), 0, 255)
    return result


def shrink_smoothing(size: float) -> float:
    """Standard deviation of the smoothing that a picture rescaled by `size` needs, in its pixels.

    A pixel is blurred by about half its width; smaller pictures lack `0.5 sqrt(1 / size² - 1)`.
    """
    return _PIXEL_BLUR * math.sqrt(1 / size**2 - 1) if check_positive("size", size) < 1 else 0.0


@functools.lru_cache(maxsize=64)
def resampling_matrix(
    length: int,
    output_length: int,
    size: float,
    smoothing: float = 7 / 8,
    boundary: str = "constant",
) -> np.ndarray:
    """The matrix that resizes a signal by `size` about its center and then smooths it.

    Entry `[i, j]` is what a unit pixel at `j` contributes to output `i`: the cubic spline through
    the pixels (`scipy.ndimage.map_coordinates`, order 3), sampled and then convolved with the
    normalized sampled Gaussian of `scipy.ndimage.gaussian_filter` (cut at 4 standard deviations).

    Args:
        length: Number of input pixels.
        output_length: Number of output pixels.
        size, smoothing, boundary: As in `rescale_images`.

    Returns:
        Read-only float64 array `[output_length, length]`.
    """
    _check_resampling(size, smoothing, boundary)
    oversampling = 1 if size >= 1 or smoothing == 0 else math.ceil(2 / size)
    kernel = _gaussian(smoothing * size * oversampling)
    reach = len(kernel) // 2
    fine = np.arange(-reach, (output_length - 1) * oversampling + reach + 1) / oversampling
    from_center = (fine - (output_length - 1) / 2) / size
    position = [from_center + (length - 1) / 2]
    frame = np.heaviside(length / 2 - np.abs(from_center), 0.5)

    matrix = np.empty((output_length, length))
    for j, pixel in enumerate(np.eye(length)):
        spline = ndimage.map_coordinates(pixel, position, order=3, mode=_SPLINE_MODES[boundary])
        if boundary == "constant":
            spline *= frame
        matrix[:, j] = np.convolve(spline, kernel, "valid")[::oversampling]
    matrix.setflags(write=False)
    return matrix


def _gaussian(sigma: float) -> np.ndarray:
    reach = int(4 * sigma + 0.5)
    if reach == 0:
        return np.ones(1)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return kernel / kernel.sum()


def _check_resampling(size: float, smoothing: float, boundary: str) -> None:
    """Raise unless these are arguments of `resampling_matrix`."""
    check_positive("size", size)
    check_non_negative("smoothing", smoothing)
    check_boundary(boundary)


def _checked_images(images: np.ndarray, peak: float | None) -> np.ndarray:
    if peak is not None:
        check_positive("peak", peak)
    images = np.asarray(images)
    if images.ndim not in (3, 4) or 0 in images.shape[1:]:
        text = "`images` must have shape [n, height, width] or [n, height, width, channels]."
        raise ValueError(f"{text} Received: {images.shape=}")
    if images.dtype.kind not in "uif":
        raise ValueError(f"`images` must be integers or floats. Received: {images.dtype}")
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise ValueError("`images` must be finite. Received: NaN or infinite pixels.")
    if peak is not None and images.dtype.kind != "u" and images.size and images.min() < 0:
        text = "`images` must not be negative where they are brought to a `peak`."
        raise ValueError(f"{text} Received: a minimum of {images.min()}")
    return images


def checked_shape(output_shape: tuple[int, int]) -> tuple[int, int]:
    shape = [*output_shape] if np.iterable(output_shape) else []
    fits = len(shape) == 2 and all(isinstance(n, int | np.integer) and n > 0 for n in shape)
    require(fits, "output_shape", "be two positive integers", output_shape)
    return int(shape[0]), int(shape[1])
