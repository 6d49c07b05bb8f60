"""Resizing about the centre and Gaussian smoothing, as one matrix."""

import functools
import math

import numpy as np
from scipy import ndimage

from gdn_keras.checks import check_boundary, check_non_negative, check_positive

# What scipy.ndimage calls each boundary rule; zeros are put in afterwards.
_SPLINE_MODES = {"constant": "reflect", "symmetric": "reflect", "edge": "nearest"}


@functools.lru_cache(maxsize=64)
def resampling_matrix(
    length: int,
    output_length: int,
    size: float,
    smoothing: float = 7 / 8,
    boundary: str = "constant",
) -> np.ndarray:
    """The matrix that resizes a signal by `size` about its centre and then smooths it.

    Entry `[i, j]` is what a unit pixel at `j` contributes to output `i`: the cubic spline through
    the pixels (`scipy.ndimage.map_coordinates`, order 3), sampled and then convolved with the
    normalised sampled Gaussian of `scipy.ndimage.gaussian_filter` (cut at 4 standard deviations).

    Args:
        length: Number of input pixels.
        output_length: Number of output pixels.
        size, smoothing, boundary: as in `rescale_images`.

    Returns:
        Read-only float64 array `[output_length, length]`.
    """
    check_resampling(size, smoothing, boundary)
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


def check_resampling(size: float, smoothing: float, boundary: str) -> None:
    """Raise unless these are arguments of `resampling_matrix`."""
    check_positive("size", size)
    check_non_negative("smoothing", smoothing)
    check_boundary(boundary)
