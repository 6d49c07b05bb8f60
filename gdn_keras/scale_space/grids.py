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
    check_choice,
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
    moments: int = 2,
    edge: float | None = None,
) -> np.ndarray:
    """The matrix A that smooths a signal on `source` and samples the result on `target`.

    Smoothing, boundary rule, crop and resampling in one linear map. Separable smoothing of an
    image X is A_y X A_x^T.

    A target point between the source points q and q + 1, at q + t, gets the row
    (1 - t) T(. - q; s') + t T(. - q - 1; s') with s' = s - t (1 - t): its mean is exactly q + t
    and its variance exactly s = sigma^2, up to truncation, at every sub-grid position. Its third
    and fourth cumulants are t (1 - t) (1 - 2 t) and s - 6 (t (1 - t))^2 where a Gaussian has
    zero, which shows at fine scales; `moments=4` takes them out.

    Args:
        source: Where the signal is given.
        target: Where the smoothed signal is wanted; it may reach beyond the source.
        sigma: Standard deviation of the smoothing, in pixels (the unit of the grids).
        boundary: What the signal is taken to be beyond the source. "symmetric": mirrored, with
            the edge sample repeated. "replicate": the edge sample. "zero": zero.
        truncation: Bound on the mass of each row that is cut off before it is normalised.
        moments: 2 for rows of T, which are positive, or 4 for rows that have the Gaussian's third
            and fourth moments too, for which they may dip below zero.
        edge: Where the signal ends on either side, as a distance from the source's centre; half a
            step beyond its last point by default. Where the continued signal is wanted between
            source points, it is interpolated linearly.

    Returns:
        float64 array [target.size, source.size]; rows sum to one unless `boundary="zero"`.

    Raises:
        ValueError: If `sigma` is below what a position between grid points needs, half a
            source step in the worst case.
    """
    sigma, boundary = check_sigma(sigma), check_boundary(boundary)
    check_choice("moments", moments, (2, 4))
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

    rows = np.pad(kernel * (1 - fraction)[:, None], ((0, 0), (0, 1)))
    rows[:, 1:] += kernel * fraction[:, None]
    first = nearest - radius
    if moments == 4:
        rows, first = _without_cumulants(rows, fraction, (sigma / source.step) ** 2), first - 2

    matrix = np.zeros((target.size, source.size))
    margin = 0.5 if edge is None else edge / source.step - (source.size - 1) / 2
    index = first[:, None] + np.arange(rows.shape[1])
    for column, share in _continued(index, source.size, margin, boundary):
        np.add.at(matrix, (np.arange(target.size)[:, None], column), rows * share)
    return matrix


def _without_cumulants(rows: np.ndarray, fraction: np.ndarray, variance: float) -> np.ndarray:
    """Rows less their third and fourth cumulants, two taps longer at either end.

    The third and fourth central differences of a row, over 3! and 4!, have just these moments.
    """
    spread = fraction * (1 - fraction)
    third, fourth = spread * (1 - 2 * fraction), variance - 6 * spread**2
    rows = np.pad(rows, ((0, 0), (4, 4)))
    far_left, left, middle, right, far_right = (
        rows[:, k : rows.shape[1] - 4 + k] for k in range(5)
    )
    skewness = (far_left - 2 * left + 2 * right - far_right) / 2
    kurtosis = far_left - 4 * left + 6 * middle - 4 * right + far_right
    return middle - third[:, None] / 6 * skewness - fourth[:, None] / 24 * kurtosis


def _continued(index, size: int, margin: float, boundary: str):
    """The samples 0 ... size - 1 that a signal consists of at `index`, as pairs (sample, share).

    It ends at -margin and size - 1 + margin, and goes on beyond by the boundary rule.
    """
    start, length = -margin, size - 1 + 2 * margin
    if boundary == "symmetric":
        position = (index - start) % (2 * length)
        position = start + np.minimum(position, 2 * length - position)
    else:
        position = np.clip(index, start, start + length)
    inside = np.abs(position - index) < _SNAP if boundary == "zero" else np.ones(index.shape)
    lower = np.floor(position + _SNAP).astype(np.int64)
    share = np.where(position - lower < _SNAP, 0.0, position - lower)
    yield np.clip(lower, 0, size - 1), (1 - share) * inside
    if share.any():
        yield np.clip(lower + 1, 0, size - 1), share * inside
