"""Sampling grids, and the matrices that smooth from one grid onto another."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.checks import (
    check_boundary,
    check_choice,
    check_integer,
    check_non_negative,
    check_positive,
)
from gdn_keras.scale_space.kernels import DEFAULT_TRUNCATION, discrete_gaussian, truncation_radius

# Positions this close to a grid point, in grid steps, are taken to be that point.
SNAP = 1e-9


@dataclass(frozen=True)
class Grid:
    """`size` points along one axis, `step` apart, centered on `center`.

    The origin is the center of the image: the pixels of an image with n columns are `Grid(n)`, at
    -(n-1)/2 ... (n-1)/2. A signal on the grid ends at the distance `edge` from its middle on either
    side, by default half a step beyond the last point. Where it is `cut`, it goes on beyond, so
    that it is mirrored whatever the boundary rule.
    """

    size: Any
    step: float = 1.0
    center: float = 0.0
    edge: Any = None
    cut: Any = False

    def __post_init__(self) -> None:
        check_integer("size", self.size)
        check_positive("step", self.step)

    def positions(self) -> np.ndarray:
        """Coordinates of the points."""
        return self.center + self.step * (np.arange(self.size) - (self.size - 1) / 2)

    def padded(self, margin: int) -> "Grid":
        """The same grid with `margin` more points at either end."""
        return replace(self, size=self.size + 2 * margin)


class Band(NamedTuple):
    """A sampling matrix of a `shape` that is zero but for a band, in tiles of a few rows each.

    `starts` [tiles] are the first columns of the tiles, and `weights` [tiles, rows, columns] their
    entries; the last rows may be more than there are.
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
) -> np.ndarray:
    """The matrix A that smooths a signal on `source` and samples the result on `target`.

    Smoothing, boundary rule, crop and resampling in one linear map, [target.size, source.size].
    Separable smoothing of an image X is A_y X A_x^T.

    A target point between the source points q and q + 1, at q + t, gets the row
    (1 - t) T(. - q; s') + t T(. - q - 1; s') with s' = s - t (1 - t): its mean is exactly q + t
    and its variance exactly s = sigma^2, up to truncation. Its third and fourth cumulants are
    t (1 - t) (1 - 2 t) and s - 6 (t (1 - t))^2 where a Gaussian has zero, which shows at fine
    scales; `moments=4` takes them out.

    Args:
        source: Where the signal is given, and where it ends. Where the continued signal is wanted
            between points, it is interpolated linearly.
        target: Where the smoothed signal is wanted; it may reach beyond the source.
        sigma: Standard deviation of the smoothing, in the unit of the grids: at least what a
            position between grid points needs, half a source step in the worst case.
        boundary: What the signal is taken to be beyond the source. "symmetric": mirrored, with
            the edge sample repeated. "edge": the edge sample. "constant": zero.
        truncation: Bound on the mass of each row that is cut off before it is normalized to one.
        moments: 2 for rows of T, which are positive, or 4 for rows that have the Gaussian's third
            and fourth moments too, for which they may dip below zero.
    """
    return sampling_band(source, target, sigma, boundary, truncation, moments, tile=None).weights[0]


def sampling_band(
    source: Grid,
    target: Grid,
    sigma: float,
    boundary: str = "symmetric",
    truncation: float = DEFAULT_TRUNCATION,
    moments: int = 2,
    tile: int | None = 32,
) -> Band:
    """`sampling_matrix` as a band, in tiles of `tile` rows; in one, and whole, without `tile`."""
    sigma, boundary = check_non_negative("sigma", sigma), check_boundary(boundary)
    check_choice("moments", moments, (2, 4))
    count = tile or target.size
    rows_in_tiles = count * -(-target.size // count)
    index = np.arange(rows_in_tiles) - (target.size - 1) / 2
    position = target.center - source.center + target.step * index
    position = position / source.step + (source.size - 1) / 2
    first, rows = sampling_rows(position, sigma / source.step, truncation, moments)
    end = source.size / 2 if source.edge is None else source.edge / source.step
    columns, values = folded_rows(first, rows, source.size, end, source.cut, boundary)
    starts, width = np.zeros(1), source.size
    if tile is not None:
        width = band_width(tile, target.step / source.step, rows.shape[1])
        starts = columns.reshape(rows_in_tiles // tile, -1).min(axis=1)
        starts = np.clip(starts, 0, max(source.size - width, 0))
    columns = columns - np.repeat(starts, count)[:, None]
    weights = np.zeros((rows_in_tiles, width))
    np.add.at(weights, (np.arange(rows_in_tiles)[:, None], columns.astype("int64")), values)
    return Band(starts, weights.reshape(-1, count, width), (target.size, source.size))


def band_width(tile: int, ratio: float, taps: int) -> int:
    """Columns that `tile` rows of `taps` each need, where rows are `ratio` columns apart."""
    return math.ceil((tile - 1) * ratio) + taps + 2


def sampling_rows(
    position: np.ndarray, sigma: float, truncation: float = DEFAULT_TRUNCATION, moments: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of `sampling_matrix` for an endless source.

    `position` is that of the target points and `sigma`, both in steps of the source. Returns the
    source point at which each row starts, and the rows, [positions, taps].
    """
    nearest = np.floor(position + SNAP)
    fraction = position - nearest
    fraction = np.where(np.abs(fraction) < SNAP, 0.0, fraction)
    variance = sigma**2 - fraction * (1 - fraction)
    if variance.min() < -SNAP:
        raise ValueError(
            "`sigma` is too small to sample between grid points: it must be at least half the "
            f"source's step. Received: sigma={sigma:g} steps"
        )
    radius = truncation_radius(sigma, truncation)
    taps = np.arange(-radius, radius + 1)
    kernel = discrete_gaussian(taps, np.maximum(variance, 0.0)[:, None])
    kernel = kernel / np.sum(kernel, axis=1, keepdims=True)
    rows = np.pad(kernel * (1 - fraction)[:, None], ((0, 0), (0, 1)))
    rows = rows + np.pad(kernel * fraction[:, None], ((0, 0), (1, 0)))
    if moments == 4:
        return nearest - radius - 2, _without_cumulants(rows, fraction, sigma**2)
    return nearest - radius, rows


def folded_rows(
    first: Any, rows: Any, size: Any, end: Any, cut: Any, boundary: str, xp: Any = np
) -> tuple[Any, Any]:
    """Rows from `sampling_rows` for a source of `size` points that ends, by the boundary rule.

    `end` is the distance from its middle to where it ends, in steps, and `xp` the module of array
    functions. Returns the columns of each row's values, and the values, which add up where a column
    stands twice.
    """
    start, length = (size - 1) / 2 - end, 2 * end
    index = first[:, None] + np.arange(rows.shape[1]) * 1.0
    distance = xp.mod(index - start, 2 * length)
    position = start + xp.minimum(distance, 2 * length - distance)
    if boundary != "symmetric":
        position = xp.where(cut, position, xp.clip(index, start, start + length))
    if boundary == "constant":
        rows = xp.where((xp.abs(position - index) < SNAP) | cut, rows, 0.0)
    # Between source points, the signal is interpolated linearly.
    lower = xp.floor(position + SNAP)
    share = xp.where(position - lower < SNAP, 0.0, position - lower) * rows
    columns = xp.clip(xp.concatenate([lower, lower + 1], axis=1), 0, size - 1)
    return columns, xp.concatenate([rows - share, share], axis=1)


def _without_cumulants(rows: np.ndarray, fraction: np.ndarray, variance: float) -> np.ndarray:
    """Rows less their third and fourth cumulants, two taps longer at either end.

    The third and fourth central differences of a row, over 3! and 4!, have just these moments.
    """
    spread = fraction * (1 - fraction)
    third, fourth = spread * (1 - 2 * fraction), variance - 6 * spread**2
    rows = np.pad(rows, ((0, 0), (4, 4)))
    taps = rows.shape[1] - 4
    far_left, left, middle, right, far_right = (rows[:, k : taps + k] for k in range(5))
    skewness = (far_left - 2 * left + 2 * right - far_right) / 2
    kurtosis = far_left - 4 * left + 6 * middle - 4 * right + far_right
    return middle - third[:, None] / 6 * skewness - fourth[:, None] / 24 * kurtosis
