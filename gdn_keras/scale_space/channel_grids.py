"""Which grid points each tensor of a scale channel needs."""

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.scale_space.gaussian import truncation_radius
from gdn_keras.scale_space.geometry import EVERYWHERE, Geometry
from gdn_keras.scale_space.grids import Grid


class Axis(NamedTuple):
    """A tensor's grid along one axis, in units of sigma_0.

    Attributes:
        grid: Its points.
        edge: Where it ends on either side: at the edge of the image, or of what surrounds it,
            unless the cone ends before.
        cut: Whether the cone does.
    """

    grid: Grid
    edge: Any
    cut: Any


class PointGrid(NamedTuple):
    """The points of a scale channel's last grid, in pixels, centred on the image.

    Attributes:
        scale: sigma_0 of the channel.
        step: Distance between neighbouring points.
        rows: Number of points along y.
        columns: Number of points along x.
    """

    scale: float
    step: float
    rows: Any
    columns: Any


def point_grids(
    shape: tuple[Any, Any], scales: Sequence[float], geometry: Geometry, xp: ModuleType = np
) -> tuple[PointGrid, ...]:
    """The grid that each scale channel of a network without a read-out ends on."""
    found = []
    for scale in scales:
        last = channel_grids(shape, scale, geometry, xp)[-1]
        if last is None:
            raise ValueError("`geometry` must end on a grid. Received: one with a read-out")
        rows, columns = (axis.grid for axis in last)
        found.append(PointGrid(scale, rows.step * scale, rows.size, columns.size))
    return tuple(found)


def channel_grids(
    shape: tuple[Any, Any], scale: float, geometry: Geometry, xp: ModuleType
) -> list[tuple[Axis, Axis] | None]:
    """Grids of all tensors, the image first, along rows and columns; `None` after a read-out."""
    plan = _dense_axis if geometry.sampling == "dense" else _matched_axis
    rows, columns = (plan(size, scale, geometry, xp) for size in shape)
    pairs = zip(rows, columns, strict=True)
    return [None if r is None or c is None else (r, c) for r, c in pairs]


def _dense_axis(size: Any, scale: float, geometry: Geometry, xp: ModuleType) -> list[Axis | None]:
    """The image's pixels, within the exact reach of the truncated kernels above."""
    beyond = xp.round(geometry.surround * size)
    whole = size + 2 * (int(beyond) if xp is np else beyond)
    needed = [0] * (len(geometry.nodes) + 1)
    needed[-1] = whole
    for node, own in zip(reversed(geometry.nodes), range(len(needed) - 1, 0, -1), strict=True):
        reach = 0
        if node.sigma is not None:
            reach = node.margin + truncation_radius(node.sigma * scale, geometry.truncation)
        # The centre of an even image is the mean of its two central pixels.
        wanted = {"center": 2 - size % 2, "everywhere": whole}.get(node.read or "", needed[own])
        wanted = whole if node.neighbors else wanted + 2 * reach
        for k in node.inputs:
            needed[k] = xp.minimum(whole, xp.maximum(needed[k], wanted))
    axes: list[Axis | None] = []
    for count, spacing in zip(needed, geometry.spacings, strict=True):
        image = spacing == 0
        count = size if image else int(count) if xp is np else count
        cut = False if image else count != whole
        axis = Axis(Grid(count, 1 / scale), count / scale / 2, cut)
        axes.append(None if spacing is None else axis)
    return axes


def _matched_axis(size: Any, scale: float, geometry: Geometry, xp: ModuleType) -> list[Axis | None]:
    """An odd number of points about the image's centre, as far as surroundings or cone go."""
    image = Axis(Grid(size, 1 / scale), size / scale / 2, False)
    end = image.edge * (1 + 2 * geometry.surround)
    known: dict[tuple, Axis] = {}
    axes: list[Axis | None] = []
    for reach, spacing in zip(geometry.reaches, geometry.spacings, strict=True):
        if spacing is not None and spacing > 0:
            key = reach, spacing
            if key not in known:  # tensors of equal grids share one object
                known[key] = _matched_grid(end, reach, spacing, geometry, xp)
            axes.append(known[key])
        else:
            axes.append(image if spacing == 0 else None)
    return axes


def _matched_grid(
    end: Any, reach: float, spacing: float, geometry: Geometry, xp: ModuleType
) -> Axis:
    step = spacing / geometry.density
    # The last point lies inside the image and its surroundings, at most a step from their edge.
    to_edge = xp.maximum(0.0, xp.ceil(end / step - 1 - 1e-6))
    if reach == EVERYWHERE:
        half, edge, cut = to_edge, end, False
    else:
        half = xp.minimum(to_edge, math.ceil(geometry.cone * reach / step))
        cut = half < to_edge
        edge = xp.where(cut, (half + 0.5) * step, end)
    if xp is np:  # Python's numbers, which can be compared and hashed
        half, edge, cut = int(half), float(edge), bool(cut)
    return Axis(Grid(2 * half + 1, step), edge, cut)
