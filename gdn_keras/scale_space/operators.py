"""The operator between the grids of two layers, and what it costs."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.scale_space.grids import Band


class Factors(NamedTuple):
    """A matrix of low rank r as a product, `expand @ compress`.

    Attributes:
        expand: [target, r].
        compress: [r, source].
    """

    expand: np.ndarray
    compress: np.ndarray


def factored(matrix: np.ndarray, tolerance: float) -> Factors:
    """A smoothing matrix as a product of two, without its small singular values.

    Smoothing with a large sigma leaves few degrees of freedom, whatever the number of points: one
    or two for each sigma, if the kernel is not cut off where it still matters.

    Args:
        matrix: From `sampling_matrix`.
        tolerance: Singular values below this share of the largest are left out.
    """
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    rank = np.count_nonzero(values > tolerance * values[0])
    return Factors(left[:, :rank] * values[:rank], right[:rank])


class LayerCost(NamedTuple):
    """Multiply-adds of a layer for one image.

    Attributes:
        smoothing: Of the products with known matrices.
        mixing: Of what the learned weights are in.
    """

    smoothing: int
    mixing: int


class Crop(NamedTuple):
    """The middle of an image, of this many rows and columns."""

    rows: Any
    columns: Any


@dataclass(frozen=True, eq=False)
class Operator:
    """Smoothing, boundary, crop and sampling of an image: A_y X A_x^T.

    Attributes:
        rows: A_y, [target rows, source rows], the margin for the stencils included; a `Band` where
            that is large.
        columns: A_x, likewise.
        sigma: The layer's scale in steps of the target grid: what scale-normalises its stencils.
        factors: `rows` and `columns` as products, where they may be of low rank.
    """

    rows: np.ndarray | Band
    columns: np.ndarray | Band
    sigma: float
    factors: tuple[Factors, Factors] | None = None

    def cost(self, c_in: int, c_out: int, margin: int) -> LayerCost:
        """What a layer needs with this operator, in single precision.

        On the smallest grids more is computed, in fewer operations, because that is faster.

        Args:
            c_in: Feature channels of the source.
            c_out: Feature channels of the layer.
            margin: Radius of its stencils.
        """
        way = self._factored_cost if self.pays_factored(c_in, c_out, margin) else self._direct_cost
        return way(c_in, c_out, margin)

    def pays_factored(self, c_in: int, c_out: int, margin: int) -> bool:
        """Whether a layer costs less in the basis of its factored matrices.

        The image is compressed, [r, r, c_in], mixed there by each tap of the learned stencil, and
        expanded to the grid together with the taps' shifts.
        """
        if self.factors is None:
            return False
        direct, via_basis = (
            sum(way(c_in, c_out, margin)) for way in (self._direct_cost, self._factored_cost)
        )
        return via_basis < direct

    def _direct_cost(self, c_in: int, c_out: int, margin: int) -> LayerCost:
        (p, _), (q, w) = self.rows.shape, self.columns.shape
        side = 2 * margin
        down, across = (_row_length(matrix) for matrix in (self.rows, self.columns))
        smoothing = (p * down * w + p * q * across) * c_in
        return LayerCost(smoothing, (p - side) * (q - side) * (side + 1) ** 2 * c_in * c_out)

    def _factored_cost(self, c_in: int, c_out: int, margin: int) -> LayerCost:
        (p, h), (q, w) = self.rows.shape, self.columns.shape
        r, t = (len(factors.compress) for factors in self.factors or ())
        p, q, size = p - 2 * margin, q - 2 * margin, 2 * margin + 1
        compressing = (r * h * w + r * t * w) * c_in
        expanding = (p * size * r * size * t + q * size * t * p) * c_out
        return LayerCost(compressing + expanding, r * t * size**2 * c_in * c_out)


def _row_length(matrix: np.ndarray | Band) -> int:
    """Entries of a row that are multiplied."""
    return matrix.shape[1] if isinstance(matrix, np.ndarray) else matrix.weights.shape[2]
