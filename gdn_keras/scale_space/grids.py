"""Sampling grids, and the matrices that smooth from one grid onto another."""

from dataclasses import dataclass

import numpy as np

from gdn_keras.scale_space.gaussian import (
    DEFAULT_TRUNCATION,
    discrete_gaussian,
    truncation_radius,
)
from gdn_keras.scale_space.validation import (
    check_boundary,
    check_integer,
    check_positive,
    check_sigma,
)

# Positions this close to a grid point, in grid steps, are taken to be that point.
_SNAP = 1e-9


@dataclass(frozen=True)
class Grid:
    """`size` points along one axis, `step` apart, centred on `center`.

    Coordinates are in pixels, with the origin at the centre of the image: the pixels of an image
    with n columns are `Grid(n)`, at -(n-1)/2 ... (n-1)/2.
    """

    size: int
    step: float = 1.0
    center: float = 0.0

    def __post_init__(self):
        check_integer("size", self.size)
        check_positive("step", self.step)

    @property
    def positions(self) -> np.ndarray:
        """Coordinates of the points."""
        return self.center + self.step * (np.arange(self.size) - (self.size - 1) / 2)

    def padded(self, margin: int) -> "Grid":
        """The same grid with `margin` more points at either end."""
        return Grid(self.size + 2 * margin, self.step, self.center)


def sampling_matrix(
    source: Grid,
    target: Grid,
    sigma: float,
    boundary: str = "symmetric",
    truncation: float = DEFAULT_TRUNCATION,
) -> np.ndarray:
    """The matrix A that smooths a signal on `source` and samples the result on `target`.

    Smoothing, boundary rule, crop and resampling in one linear map. Separable smoothing of an
    image X is A_y X A_x^T.

    A target point between the source points q and q + 1, at q + t, gets the row
    (1 - t) T(. - q; s') + t T(. - q - 1; s') with s' = s - t (1 - t): its mean is exactly q + t
    and its variance exactly s = sigma^2, up to truncation, at every sub-grid position.

    Args:
        source: Where the signal is given.
        target: Where the smoothed signal is wanted; it may reach beyond the source.
        sigma: Standard deviation of the smoothing, in pixels (the unit of the grids).
        boundary: What the signal is taken to be beyond the source. "symmetric": mirrored, with
            the edge sample repeated. "replicate": the edge sample. "zero": zero.
        truncation: Bound on the mass of each row that is cut off before it is normalised.

    Returns:
        float64 array [target.size, source.size]; rows sum to one unless `boundary="zero"`.

    Raises:
        ValueError: If `sigma` is below what a position between grid points needs, half a
            source step in the worst case.
    """
    sigma, boundary = check_sigma(sigma), check_boundary(boundary)
    position = (target.positions - source.positions[0]) / source.step
    nearest = np.floor(position + _SNAP).astype(np.int64)
    fraction = position - nearest
    fraction[np.abs(fraction) < _SNAP] = 0.0
    variance = (sigma / source.step) ** 2 - fraction * (1 - fraction)
    if variance.min() < -_SNAP:
        raise ValueError(
            "`sigma` is too small to sample between grid points: it must be at least half the "
            f"source's step. Received: sigma={sigma} with step={source.step}"
        )
    radius = truncation_radius(sigma / source.step, truncation)
    taps = np.arange(-radius, radius + 1)
    kernel = discrete_gaussian(taps, np.maximum(variance, 0.0)[:, None])
    kernel /= kernel.sum(axis=1, keepdims=True)

    matrix = np.zeros((target.size, source.size))
    rows = np.broadcast_to(np.arange(target.size)[:, None], kernel.shape)
    for shift, share in ((0, 1 - fraction), (1, fraction)):
        columns, inside = _fold(nearest[:, None] + taps + shift, source.size, boundary)
        np.add.at(matrix, (rows, columns), kernel * share[:, None] * inside)
    return matrix


def _fold(index: np.ndarray, size: int, boundary: str) -> tuple[np.ndarray, np.ndarray]:
    """Bring indices beyond 0 ... size - 1 back inside; the mask says which taps count."""
    if boundary == "symmetric":
        index = index % (2 * size)
        return np.minimum(index, 2 * size - 1 - index), np.ones(index.shape)
    inside = (index >= 0) & (index < size) if boundary == "zero" else np.ones(index.shape)
    return np.clip(index, 0, size - 1), inside
