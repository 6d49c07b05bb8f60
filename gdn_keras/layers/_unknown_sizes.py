"""Images whose size is known only when a graph runs, of TensorFlow alone: the plan in tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from keras import ops

from gdn_keras.scale_space import Band, Grid, Operator, Plan
from gdn_keras.scale_space.grids import SNAP, band_width, folded_rows, sampling_rows

_TILE = 32
_DEGREE = 15  # of polynomials in where a point lies between two others; exact to 1e-10


@dataclass(frozen=True)
class _Grid(Grid):
    """A grid whose size, edge and cut are tensors."""

    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class TensorPlan(Plan):
    """`Plan` for a height and width that are tensors. Each scale channel is a batch of its own."""

    def batches(self, shape: Any, scales: Any) -> Any:
        return tuple(self.channel(shape, scale) for scale in scales)

    def channel(self, shape: Any, scale: float) -> Any:
        return super().channel(tuple(ops.cast(size, "float64") for size in shape), scale)

    def _image(self, shape: Any, scale: float) -> Any:
        return tuple(
            _Grid(ops.cast(size, "int32"), 1 / scale, edge=size / scale / 2, cut=size < 0)
            for size in shape
        )

    def _grid(self, end: Any, spacing: float, reach: float) -> Grid:
        step = spacing / self.density
        to_edge = ops.maximum(0.0, ops.ceil(end / step - 1 - 1e-6))
        half = ops.minimum(to_edge, np.ceil(self.cone * reach / step))
        cut = half < to_edge
        edge = ops.where(cut, (half + 0.5) * step, end)
        return _Grid(2 * ops.cast(half, "int32") + 1, step, edge=edge, cut=cut)

    def _smoothing(self, source: Any, target: Any, margin: int, *rules: Any) -> Operator:
        bands = []
        for here, there in zip(source, target, strict=True):
            count = there.size + 2 * margin
            # In units of sigma_0 all channels have the same steps, and so share one function.
            function = _band_function(here.step, there.step, *rules)
            starts, weights = function(here.size, count, here.edge, here.cut)
            bands.append(Band(starts, weights, (count, here.size)))
        return Operator(*bands)


@cache
def _band_function(
    source_step: float, target_step: float, sigma: float, boundary: str, *rules: Any
) -> Callable:
    """`sampling_band` as a function of tensors: starts and weights from sizes, edge and cut.

    A graph holds it once, however often it is called, or the operators of all channels and layers
    would be tens of thousands of operations.
    """
    import tensorflow as tf

    ratio = target_step / source_step
    offset, table = _row_polynomials(sigma / source_step, *rules)

    def band(size: Any, count: Any, edge: Any, cut: Any) -> tuple[Any, Any]:
        size, count = ops.cast(size, "float64"), ops.cast(count, "float64")
        index = ops.arange(_TILE * ops.ceil(count / _TILE), dtype="float64") - (count - 1) / 2
        position = index * ratio + (size - 1) / 2
        nearest = ops.floor(position + SNAP)
        powers = ops.power((2 * (position - nearest) - 1)[:, None], np.arange(len(table)) * 1.0)
        first, rows = nearest + offset, ops.matmul(powers, table)
        end = edge / source_step
        columns, values = folded_rows(first, rows, size, end, cut, boundary, ops)
        width = band_width(_TILE, ratio, rows.shape[1])
        starts = ops.min(ops.reshape(columns, (-1, _TILE * columns.shape[1])), axis=1)
        starts = ops.clip(starts, 0, ops.maximum(size - width, 0))
        columns = columns - ops.repeat(starts, _TILE)[:, None]
        places = ops.arange(ops.shape(columns)[0], dtype="int32")[:, None] * width
        places = ops.reshape(places + ops.cast(columns, "int32"), (-1, 1))
        total = ops.shape(columns)[0] * width
        weights = ops.scatter(places, ops.reshape(values, (-1,)), (total,))
        return starts, ops.reshape(weights, (-1, _TILE, width))

    # Inlined, they would be many again.
    return tf.function(band, autograph=False, experimental_attributes={"_noinline": True})


def _row_polynomials(sigma: float, truncation: float, moments: int) -> tuple[float, np.ndarray]:
    """Where `sampling_rows` start at q + t, less q; as polynomials in 2 t - 1, [powers, taps]."""
    nodes = np.polynomial.chebyshev.chebpts1(_DEGREE + 1)
    first, rows = sampling_rows((nodes + 1) / 2, sigma, truncation, moments)
    return first[0], np.linalg.solve(np.vander(nodes, increasing=True), rows)
