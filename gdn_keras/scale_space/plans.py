"""Which grid points each layer of a scale channel needs, and the operators between them.

A scale channel with initial scale sigma_0 runs layers at sigma_k = beta_k sigma_0. A plan fixes
the grid of every tensor of the network and so the matrices that smooth from one onto the next.

*Dense* sampling is the paper to the letter: every layer on the pixels of the image.

*Matched* sampling gives layer k a grid of step h_k in proportion to its own scale sigma_k, centred
on the image. Measured in sigma_0, grids and operators are the same numbers in every scale channel:
the channels run one and the same discrete network, and the scale enters only in the first
operators, which lift the image onto the channel's grids.

Where only the centre is read, each tensor is needed only within the reach of the layers above it:
the *receptive cone*.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.scale_space.gaussian import DEFAULT_TRUNCATION, truncation_radius
from gdn_keras.scale_space.grids import (
    Band,
    Grid,
    band,
    folded_rows,
    sampling_matrix,
    sampling_rows,
    tiled,
)
from gdn_keras.scale_space.operators import Crop, LayerCost, Operator, factored

# Mass that networks cut off their smoothing kernels. Cut off further out, dense operators have a
# lower rank, which saves more than the longer kernels cost.
DEFAULT_TRUNCATIONS = {"matched": DEFAULT_TRUNCATION, "dense": DEFAULT_TRUNCATION / 10}
SAMPLINGS = tuple(DEFAULT_TRUNCATIONS)
MAPS = ("pixels", "points")

# Half-width of a matched channel's receptive cone, in standard deviations of the smoothing that
# is still to come.
DEFAULT_CONE = 3.5

# Singular values of dense operators that are left out where that saves work, at most. What second
# derivatives make of them is below the rounding errors of float32; third ones would show more.
_NEGLIGIBLE = 1e-4

_EVERYWHERE = math.inf

# Rows of a tile of a band, and the size of a grid up to which a whole matrix is faster than that
# (benchmarks/detection.py measures both).
_TILE = 32
_SMALL = 192


@dataclass(frozen=True)
class Node:
    """One tensor of a network, as far as grids are concerned.

    Attributes:
        inputs: Indices of the tensors that it is computed from; the image is tensor 0.
        sigma: beta_k, if it is computed by smoothing to sigma_k and sampling on a grid matched to
            it. If `None`, it is computed point by point, on the coarsest of its inputs' grids.
        margin: Radius of the stencils that are applied after smoothing.
        read: "center" or "everywhere" for a read-out, which leaves no grid; these say where its
            input is read.
        neighbours: Whether the next finer and the next coarser scale channel take part.
    """

    inputs: tuple[int, ...]
    sigma: float | None = None
    margin: int = 0
    read: str | None = None
    neighbours: bool = False


@dataclass(frozen=True)
class Geometry:
    """What a plan depends on, the image and the scale channels apart.

    Attributes:
        nodes: The network's tensors in the order of their computation, the image left out.
        sampling: "matched" or "dense".
        boundary: The boundary rule.
        truncation: Bound on the mass cut off each smoothing kernel.
        density: Grid points of a matched layer per sigma_k: h_k = sigma_k / density.
        cone: Half-width of a matched channel's receptive cone, in standard deviations of the
            smoothing that is still to come.
        maps: "pixels" or "points", for a network without a read-out: whether its last tensor is
            brought to the image's pixels.
    """

    nodes: tuple[Node, ...]
    sampling: str
    boundary: str
    truncation: float
    density: float
    cone: float = DEFAULT_CONE
    maps: str = "pixels"

    @property
    def has_maps(self) -> bool:
        """Whether the network ends on a grid, without a read-out."""
        return self.spacings[-1] is not None

    @property
    def spacings(self) -> tuple[float | None, ...]:
        """beta of the grid that each tensor is on: 0 for the image's pixels, `None` for no grid."""
        found: list[float | None] = [0.0]
        for node in self.nodes:
            sources = [found[i] for i in node.inputs]
            steps = [step for step in sources if step is not None]
            if node.read or len(steps) < len(sources):
                found.append(None)
            else:
                found.append(max(steps) if node.sigma is None else node.sigma)
        return tuple(found)


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


@dataclass(frozen=True)
class Group:
    """Scale channels whose tensors have equal grids, and so can share a batch.

    Attributes:
        scales: sigma_0 of the channels.
        edges: For each node and each of its inputs, what brings the input to the node's grid in
            each channel: an `Operator`, a `Crop`, or `None` where they have the same grid. The
            inputs of a node with neighbours are the tensor itself, then that of the finer and that
            of the coarser channel, which are `None` at the ends of the scale range.
        outputs: For maps on pixels, the operator from the last grid to them, one per channel.
    """

    scales: tuple[float, ...]
    edges: tuple[tuple[tuple[Operator | Crop | None, ...], ...], ...]
    outputs: tuple[Operator, ...] | None


class _Axis(NamedTuple):
    """A tensor's grid along one axis, in units of sigma_0.

    Attributes:
        grid: Its points.
        edge: Where it ends on either side: the image's edge, unless the cone ends before it.
        cut: Whether the cone does.
    """

    grid: Grid
    edge: Any
    cut: Any


def plan_channels(
    shape: tuple[Any, Any], scales: Sequence[float], geometry: Geometry, xp: ModuleType = np
) -> tuple[Group, ...]:
    """Plan all scale channels for images of the given height and width, finest channel first.

    Args:
        shape: Height and width, tensors where they are known only when a graph runs.
        scales: sigma_0 of the channels.
        geometry: What else the plan depends on.
        xp: Array functions: NumPy's, or `keras.ops` where the shape consists of tensors.
    """
    grids = [_channel_grids(shape, scale, geometry, xp) for scale in scales]
    if xp is np:
        operator = _operator
    else:
        reach = xp.maximum(*shape) / 2 / scales[0]
        operator = functools.partial(_operator.__wrapped__, rows=_RowTables(reach, xp), xp=xp)
    channels = [_plan_channel(i, scales, grids, geometry, operator) for i in range(len(scales))]
    if xp is not np:
        return tuple(channels)
    groups: list[Group] = []
    for channel in channels:
        if groups and _signature(groups[-1], geometry) == _signature(channel, geometry):
            channel = _together(groups.pop(), channel)
        groups.append(channel)
    return tuple(groups)


def point_grids(
    shape: tuple[Any, Any], scales: Sequence[float], geometry: Geometry, xp: ModuleType = np
) -> tuple[PointGrid, ...]:
    """The grid that each scale channel of a network without a read-out ends on."""
    ends = [_channel_grids(shape, scale, geometry, xp)[-1] for scale in scales]
    return tuple(
        PointGrid(scale, rows.grid.step * scale, rows.grid.size, columns.grid.size)
        for scale, (rows, columns) in zip(scales, filter(None, ends), strict=True)
    )


def _together(group: Group, channel: Group) -> Group:
    edges = tuple(
        tuple(a + b for a, b in zip(here, there, strict=True))
        for here, there in zip(group.edges, channel.edges, strict=True)
    )
    outputs = group.outputs and group.outputs + (channel.outputs or ())
    return Group(group.scales + channel.scales, edges, outputs)


def _signature(group: Group, geometry: Geometry) -> tuple:
    """What channels must have in common to share a batch: all grids, and shared operators."""
    spacings = geometry.spacings
    found: list[Any] = []
    for node, edges in zip(geometry.nodes, group.edges, strict=True):
        edge = edges[0][0]
        lifted = spacings[node.inputs[0]] == 0
        if isinstance(edge, Operator) and lifted:
            edge = edge.sigma, len(edge.rows), len(edge.columns)
        found.append(edge)
    return tuple(found)


def _plan_channel(
    i: int, scales: Sequence[float], grids: list, geometry: Geometry, operator: Callable
) -> Group:
    """One channel's plan; everything but the lift is measured in units of sigma_0."""
    here, edges = grids[i], []
    for n, node in enumerate(geometry.nodes, start=1):
        sources = [here[k] for k in node.inputs]
        if node.neighbours:
            for j in (i - 1, i + 1):
                beside = grids[j][node.inputs[0]] if 0 <= j < len(scales) else None
                sources.append(beside and _in_units(beside, scales[j] / scales[i]))
        lifted = geometry.spacings[node.inputs[0]] == 0
        edges.append(tuple((_edge(s, here[n], node, lifted, geometry, operator),) for s in sources))
    outputs = None
    if geometry.has_maps and geometry.maps == "pixels" and geometry.sampling == "matched":
        outputs = (operator(here[-1], here[0], _least(here[-1]), 0, geometry, rows=None),)
    return Group((scales[i],), tuple(edges), outputs)


def _in_units(axes: tuple[_Axis, _Axis], ratio: float) -> tuple[_Axis, ...]:
    """Another channel's grid, measured in this one's sigma_0."""
    return tuple(
        _Axis(Grid(axis.grid.size, axis.grid.step * ratio), axis.edge * ratio, axis.cut)
        for axis in axes
    )


def _edge(
    source: tuple[_Axis, _Axis] | None,
    target: tuple[_Axis, _Axis] | None,
    node: Node,
    lifted: bool,
    geometry: Geometry,
    operator: Callable,
) -> Operator | Crop | None:
    """What brings a node's input to its grid."""
    if source is None or target is None:
        return None
    if node.sigma is not None:
        moments = 4 if lifted and geometry.sampling == "matched" else 2
        return operator(source, target, node.sigma, node.margin, geometry, moments)
    if abs(source[0].grid.step / target[0].grid.step - 1) > 1e-9:
        return operator(source, target, _least(source), 0, geometry)
    here, there = ([axis.grid.size for axis in axes] for axes in (source, target))
    same = all(a is b or (isinstance(a, int) and a == b) for a, b in zip(here, there, strict=True))
    return None if same else Crop(*there)


def _least(source: tuple[_Axis, _Axis]) -> float:
    """The least smoothing that a position between the points of a grid takes: half a step.

    It is constant over the plane and the same in every channel, so that it keeps the covariance,
    and small beside the smoothing that made the source.
    """
    return source[0].grid.step / 2


def _channel_grids(
    shape: tuple[Any, Any], scale: float, geometry: Geometry, xp: ModuleType
) -> list[tuple[_Axis, _Axis] | None]:
    """Grids of all tensors, the image first, along rows and columns; `None` after a read-out."""
    plan = _dense_axis if geometry.sampling == "dense" else _matched_axis
    rows, columns = (plan(size, scale, geometry, xp) for size in shape)
    return [None if r is None or c is None else (r, c) for r, c in zip(rows, columns, strict=True)]


def _dense_axis(size: Any, scale: float, geometry: Geometry, xp: ModuleType) -> list[_Axis | None]:
    """The image's pixels, within the exact reach of the truncated kernels above."""
    needed = [0] * (len(geometry.nodes) + 1)
    needed[-1] = size
    for node, own in zip(reversed(geometry.nodes), range(len(needed) - 1, 0, -1), strict=True):
        reach = 0
        if node.sigma is not None:
            reach = node.margin + truncation_radius(node.sigma * scale, geometry.truncation)
        # The centre of an even image is the mean of its two central pixels.
        wanted = {"center": 2 - size % 2, "everywhere": size}.get(node.read or "", needed[own])
        wanted = size if node.neighbours else wanted + 2 * reach
        for k in node.inputs:
            needed[k] = xp.minimum(size, xp.maximum(needed[k], wanted))
    axes: list[_Axis | None] = []
    for count, spacing in zip(needed, geometry.spacings, strict=True):
        count = size if spacing == 0 else int(count) if xp is np else count
        axis = _Axis(Grid(count, 1 / scale), count / scale / 2, count != size)
        axes.append(None if spacing is None else axis)
    return axes


def _matched_axis(
    size: Any, scale: float, geometry: Geometry, xp: ModuleType
) -> list[_Axis | None]:
    """An odd number of points about the image's centre, as far as the image or the cone goes."""
    image = _Axis(Grid(size, 1 / scale), size / scale / 2, False)
    known: dict[tuple, _Axis] = {}
    axes: list[_Axis | None] = []
    for reach, spacing in zip(_reaches(geometry), geometry.spacings, strict=True):
        if spacing is not None and spacing > 0:
            key = reach, spacing
            if key not in known:  # tensors of equal grids share one object
                known[key] = _matched_grid(image.edge, reach, spacing, geometry, xp)
            axes.append(known[key])
        else:
            axes.append(image if spacing == 0 else None)
    return axes


def _matched_grid(
    image_edge: Any, reach: float, spacing: float, geometry: Geometry, xp: ModuleType
) -> _Axis:
    step = spacing / geometry.density
    # The last point lies inside the image, at most a step from its edge.
    to_edge = xp.maximum(0.0, xp.ceil(image_edge / step - 1 - 1e-6))
    if reach == _EVERYWHERE:
        half, edge, cut = to_edge, image_edge, False
    else:
        half = xp.minimum(to_edge, math.ceil(geometry.cone * reach / step))
        cut = half < to_edge
        edge = xp.where(cut, (half + 0.5) * step, image_edge)
    if xp is np:  # Python's numbers, which can be compared and hashed
        half, edge, cut = int(half), float(edge), bool(cut)
    return _Axis(Grid(2 * half + 1, step), edge, cut)


def _reaches(geometry: Geometry) -> list[float]:
    """Standard deviation of all smoothing between each tensor and the centre, in sigma_0."""
    variance = [0.0] * (len(geometry.nodes) + 1)
    variance[-1] = _EVERYWHERE
    spacings = geometry.spacings
    for node, own in zip(reversed(geometry.nodes), range(len(variance) - 1, 0, -1), strict=True):
        wanted = {"center": 0.0, "everywhere": _EVERYWHERE}.get(node.read or "", variance[own])
        for k in node.inputs:
            added = 0.0
            if node.sigma is not None:
                added = node.sigma**2
            elif spacings[k] != spacings[own] and spacings[own] is not None:
                added = ((spacings[k] or 0.0) / geometry.density / 2) ** 2
            variance[k] = max(variance[k], wanted + added)
            if node.neighbours:
                variance[k] = _EVERYWHERE
    return [math.sqrt(v) for v in variance]


class _RowTables:
    """Rows of operators whose grids are unknown, computed once for all channels and both axes.

    Matched grids have a point in the middle of the image. From there, the positions of one grid
    in steps of another are the same numbers in every channel; only how far they go differs.
    """

    def __init__(self, reach: Any, xp: ModuleType):
        self._reach = reach  # of the finest channel, in sigma_0
        self._xp = xp
        self._tables: dict[tuple, tuple] = {}

    def __call__(
        self, source: Grid, target: Grid, count: Any, sigma: float, truncation: float
    ) -> tuple[Any, Any]:
        """Rows for the first `count` points of a target and, from there on, beyond it."""
        xp = self._xp
        key = (source.step, target.step, sigma)
        if key not in self._tables:
            half = xp.ceil(self._reach / target.step) + 3  # margins included
            index = xp.arange(-half, half + 1 + _TILE, dtype="float64")
            position = index * (target.step / source.step)
            rows = sampling_rows(position, sigma / source.step, truncation, 2, xp)
            self._tables[key] = (half, *rows)
        half, first, rows = self._tables[key]
        start = xp.cast(half - (target.size - 1) / 2, "int32")
        cut = slice(start, start + xp.cast(count, "int32"))
        return first[cut] + (source.size - 1) / 2, rows[cut]


@lru_cache(maxsize=1024)
def _operator(
    source: tuple[_Axis, _Axis],
    target: tuple[_Axis, _Axis],
    sigma: float,
    margin: int,
    geometry: Geometry,
    moments: int = 2,
    rows: Callable | None = None,
    xp: ModuleType = np,
) -> Operator:
    """Smoothing between two grids; cached, so that channels with equal grids share one object.

    The lift is where scale channels could differ: the finer one is, the more the third and fourth
    moments of T do. So they are set right there.
    """
    down, across = (
        _matrix(here, there.grid.padded(margin), sigma, geometry, moments, rows, xp)
        for here, there in zip(source, target, strict=True)
    )
    factors = None
    if xp is np and geometry.sampling == "dense" and margin == 1:
        tolerance = min(_NEGLIGIBLE, geometry.truncation)
        if isinstance(down, np.ndarray) and isinstance(across, np.ndarray):  # dense ones are
            factors = factored(down, tolerance), factored(across, tolerance)
    return Operator(down, across, sigma / target[0].grid.step, factors)


def _matrix(
    source: _Axis,
    target: Grid,
    sigma: float,
    geometry: Geometry,
    moments: int,
    rows: Callable | None,
    xp: ModuleType,
) -> np.ndarray | Band:
    """Smoothing along one axis: a matrix where it is small, a band where it is not, or may be."""
    # A cone's end is no edge of the image: nothing is known to be zero beyond it.
    ends = (source.edge, source.cut, xp)
    here, boundary, truncation = source.grid, geometry.boundary, geometry.truncation
    if xp is np and (here.size <= _SMALL or geometry.sampling == "dense"):
        return sampling_matrix(here, target, sigma, boundary, truncation, moments, *ends)
    longer = tiled(target, _TILE, xp)
    if rows is None or moments == 4 or geometry.sampling == "dense":
        position = longer.positions(xp) / here.step + (here.size - 1) / 2
        found = sampling_rows(position, sigma / here.step, truncation, moments, xp)
    else:
        found = rows(here, target, longer.size, sigma, truncation)
    first, weights = found
    columns, values = folded_rows(first, weights, here, boundary, *ends)
    shape = target.size, here.size
    return band(first, columns, values, shape, target.step / here.step, _TILE, xp)


def layer_costs(
    groups: Sequence[Group], geometry: Geometry, features: Sequence[int]
) -> tuple[LayerCost, ...]:
    """What each tensor costs for one image, forward: matrix products and convolutions.

    Layers that act on each point alone, and bringing maps back to pixels, are not counted.

    Args:
        groups: From `plan_channels`.
        geometry: What they were planned for.
        features: Feature channels of all tensors, the image first.
    """
    costs = []
    for n, node in enumerate(geometry.nodes):
        c_out = 0 if node.sigma is None else features[n + 1]
        found = [
            edge.cost(features[k], c_out, node.margin)
            for group in groups
            for k, edges in zip(node.inputs * 3, group.edges[n], strict=False)
            for edge in edges
            if isinstance(edge, Operator)
        ]
        costs.append(LayerCost(*(sum(part) for part in zip((0, 0), *found, strict=True))))
    return tuple(costs)


def multiply_adds(groups: Sequence[Group], geometry: Geometry, features: Sequence[int]) -> int:
    """Multiply-adds that a plan needs for one image, forward: the sum of `layer_costs`."""
    return sum(sum(cost) for cost in layer_costs(groups, geometry, features))


def cascade(
    sigmas: Sequence[float], margins: Sequence[int] | None = None, read: str | None = "center"
) -> tuple[Node, ...]:
    """The nodes of layers one after the other, at the given beta_k, with a read-out at the end."""
    margins = [1] * len(sigmas) if margins is None else margins
    layers = zip(range(len(sigmas)), sigmas, margins, strict=True)
    nodes = [Node((k,), sigma, margin) for k, sigma, margin in layers]
    return tuple([*nodes, Node((len(nodes),), read=read)] if read else nodes)
