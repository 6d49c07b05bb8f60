"""Sampling grids, and the matrices that smooth from one grid onto another.

Where the size of an image is known only when a graph runs, `xp` are the array functions of that
graph (`keras.ops`), and sizes, positions and matrices are its tensors. All else is NumPy's.
"""

import math
from dataclasses import dataclass
from numbers import Number
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.checks import (
    check_boundary,
    check_choice,
    check_integer,
    check_non_negative,
    check_positive,
)
from gdn_keras.scale_space.gaussian import (
    DEFAULT_TRUNCATION,
    discrete_gaussian,
    truncation_radius,
)

# Positions this close to a grid point, in grid steps, are taken to be that point.
_SNAP = 1e-9


@dataclass(frozen=True)
class Grid:
    """`size` points along one axis, `step` apart, centred on `center`.

    Coordinates are in pixels, with the origin at the centre of the image: the pixels of an image
    with n columns are `Grid(n)`, at -(n-1)/2 ... (n-1)/2.
    """

    size: Any
    step: float = 1.0
    center: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.size, (Number, str, np.ndarray)) or not hasattr(self.size, "dtype"):
            check_integer("size", self.size)
        check_positive("step", self.step)

    def positions(self, xp: ModuleType = np) -> np.ndarray:
        """Coordinates of the points."""
        index = xp.arange(self.size, dtype="float64")
        return self.center + self.step * (index - (self.size - 1) / 2)

    def padded(self, margin: int) -> "Grid":
        """The same grid with `margin` more points at either end."""
        return Grid(self.size + 2 * margin, self.step, self.center)


class Band(NamedTuple):
    """A sampling matrix that is zero but for a band, in tiles of a few rows each.

    Attributes:
        starts: First column of each tile, [tiles].
        weights: [tiles, rows, columns]; the last rows may be more than there are.
        shape: Of the matrix, rows and columns.
    """

    starts: Any
    weights: Any
    shape: tuple[Any, Any]


def sampling_matrix(
    source: Grid,
    target: Grid,
    sigma: float,
    boundary: str = "symmetric",
    truncation: float = DEFAULT_TRUNCATION,
    moments: int = 2,
    edge: float | None = None,
    mirrored: bool = False,
    xp: ModuleType = np,
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
        sigma: Standard deviation of the smoothing, in the unit of the grids.
        boundary: What the signal is taken to be beyond the source. "symmetric": mirrored, with
            the edge sample repeated. "edge": the edge sample. "constant": zero.
        truncation: Bound on the mass of each row that is cut off before it is normalised.
        moments: 2 for rows of T, which are positive, or 4 for rows that have the Gaussian's third
            and fourth moments too, for which they may dip below zero.
        edge: Where the signal ends on either side, as a distance from the source's centre; half a
            step beyond its last point by default. Where the continued signal is wanted between
            source points, it is interpolated linearly.
        mirrored: Whether the signal is mirrored whatever `boundary` says, because it does not end
            with the image.
        xp: Array functions: NumPy's, or `keras.ops` where sizes are tensors.

    Returns:
        float64 array [target.size, source.size]; rows sum to one unless `boundary="constant"`.

    Raises:
        ValueError: If `sigma` is below what a position between grid points needs, half a
            source step in the worst case.
    """
    sigma, boundary = check_non_negative("sigma", sigma), check_boundary(boundary)
    check_choice("moments", moments, (2, 4))
    position = (target.positions(xp) - source.center) / source.step + (source.size - 1) / 2
    first, rows = sampling_rows(position, sigma / source.step, truncation, moments, xp)
    columns, values = folded_rows(first, rows, source, boundary, edge, mirrored, xp)
    return _scattered(columns, values, source.size, xp)


def sampling_band(
    source: Grid,
    target: Grid,
    sigma: float,
    boundary: str = "symmetric",
    truncation: float = DEFAULT_TRUNCATION,
    moments: int = 2,
    edge: float | None = None,
    mirrored: bool = False,
    xp: ModuleType = np,
    tile: int = 32,
) -> Band:
    """`sampling_matrix` as a band, in tiles of `tile` rows. Other arguments are the same."""
    ratio = target.step / source.step
    tiles = xp.ceil(target.size / tile)
    index = xp.arange(tile * tiles, dtype="float64") - (target.size - 1) / 2
    start = (target.center - source.center) / source.step + (source.size - 1) / 2
    first, rows = sampling_rows(index * ratio + start, sigma / source.step, truncation, moments, xp)
    columns, values = folded_rows(first, rows, source, boundary, edge, mirrored, xp)
    width = math.ceil((tile - 1) * ratio) + rows.shape[1] + 2
    starts = xp.clip(first[::tile], 0, xp.maximum(source.size - width, 0))
    inside = xp.reshape(columns, (-1, tile, values.shape[1])) - starts[:, None, None]
    weights = _scattered(xp.reshape(inside, (-1, values.shape[1])), values, width, xp)
    return Band(starts, xp.reshape(weights, (-1, tile, width)), (target.size, source.size))


def sampling_rows(
    position: np.ndarray,
    sigma: float,
    truncation: float = DEFAULT_TRUNCATION,
    moments: int = 2,
    xp: ModuleType = np,
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of `sampling_matrix` for an endless source.

    Args:
        position: Of the target points, in steps of the source.
        sigma: In steps of the source.
        truncation, moments, xp: As in `sampling_matrix`.

    Returns:
        The source point at which each row starts, and the rows, [positions, taps].
    """
    nearest = xp.floor(position + _SNAP)
    fraction = position - nearest
    fraction = xp.where(xp.abs(fraction) < _SNAP, 0.0, fraction)
    variance = sigma**2 - fraction * (1 - fraction)
    if xp is np and variance.min() < -_SNAP:
        raise ValueError(
            "`sigma` is too small to sample between grid points: it must be at least half the "
            f"source's step. Received: sigma={sigma:g} steps"
        )
    radius = truncation_radius(sigma, truncation)
    taps = np.arange(-radius, radius + 1)
    kernel = discrete_gaussian(taps, xp.maximum(variance, 0.0)[:, None], xp)
    kernel = kernel / xp.sum(kernel, axis=1, keepdims=True)
    rows = xp.pad(kernel * (1 - fraction)[:, None], ((0, 0), (0, 1)))
    rows = rows + xp.pad(kernel * fraction[:, None], ((0, 0), (1, 0)))
    if moments == 4:
        return nearest - radius - 2, _without_cumulants(rows, fraction, sigma**2, xp)
    return nearest - radius, rows


def folded_rows(
    first: np.ndarray,
    rows: np.ndarray,
    source: Grid,
    boundary: str,
    edge: float | None = None,
    mirrored: bool = False,
    xp: ModuleType = np,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows from `sampling_rows` for a source that ends, by the boundary rule.

    Arguments as in `sampling_matrix`.

    Returns:
        The columns of the matrix that each row has values in, and the values, which add up where
        a column stands twice.
    """
    middle = (source.size - 1) / 2
    margin = 0.5 if edge is None else edge / source.step - middle
    index = first[:, None] + np.arange(rows.shape[1], dtype="float64")
    start, length = -margin, 2 * (middle + margin)
    position = folded = start + _reflected(index - start, length, xp)
    if boundary != "symmetric":
        clipped = xp.clip(index, start, start + length)
        position = xp.where(mirrored, folded, clipped)
    if boundary == "constant":
        outside = (xp.abs(position - index) >= _SNAP) & xp.logical_not(mirrored)
        rows = xp.where(outside, 0.0, rows)
    # Between source points, the signal is interpolated linearly.
    lower = xp.floor(position + _SNAP)
    share = xp.where(position - lower < _SNAP, 0.0, position - lower) * rows
    columns = xp.clip(xp.concatenate([lower, lower + 1], axis=1), 0, source.size - 1)
    return columns, xp.concatenate([rows - share, share], axis=1)


def _reflected(distance: np.ndarray, length: float, xp: ModuleType) -> np.ndarray:
    """Distance from the start of a stretch that is mirrored at both of its ends, over and over."""
    distance = distance % (2 * length)
    return xp.minimum(distance, 2 * length - distance)


def _without_cumulants(
    rows: np.ndarray, fraction: np.ndarray, variance: float, xp: ModuleType
) -> np.ndarray:
    """Rows less their third and fourth cumulants, two taps longer at either end.

    The third and fourth central differences of a row, over 3! and 4!, have just these moments.
    """
    spread = fraction * (1 - fraction)
    third, fourth = spread * (1 - 2 * fraction), variance - 6 * spread**2
    rows = xp.pad(rows, ((0, 0), (4, 4)))
    far_left, left, middle, right, far_right = (
        rows[:, k : rows.shape[1] - 4 + k] for k in range(5)
    )
    skewness = (far_left - 2 * left + 2 * right - far_right) / 2
    kurtosis = far_left - 4 * left + 6 * middle - 4 * right + far_right
    return middle - third[:, None] / 6 * skewness - fourth[:, None] / 24 * kurtosis


def _scattered(columns: np.ndarray, values: np.ndarray, size: int, xp: ModuleType) -> np.ndarray:
    """The matrix that has `values` added up in `columns` of each row."""
    if xp is np:
        matrix = np.zeros((len(values), size))
        np.add.at(matrix, (np.arange(len(values))[:, None], columns.astype(np.int64)), values)
        return matrix
    count, taps = xp.shape(values)
    rows = xp.broadcast_to(xp.arange(count, dtype="int32")[:, None], (count, taps))
    index = xp.stack([xp.reshape(rows, (-1,)), xp.reshape(xp.cast(columns, "int32"), (-1,))], -1)
    return xp.scatter(index, xp.reshape(values, (-1,)), (count, xp.cast(size, "int32")))
