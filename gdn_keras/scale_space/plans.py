"""The operators between the grids of a scale channel's tensors.

A scale channel with initial scale sigma_0 runs layers at sigma_k = beta_k sigma_0. A plan fixes
the grid of every tensor of the network and so the matrices that smooth from one onto the next.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from gdn_keras.scale_space.channel_grids import Axis, channel_grids
from gdn_keras.scale_space.geometry import Geometry, Node
from gdn_keras.scale_space.grids import Band, Grid, sampling_band, sampling_matrix
from gdn_keras.scale_space.operators import Crop, LayerCost, Operator, factored

# Singular values of dense operators that are left out where that saves work, at most. What second
# derivatives make of them is below the rounding errors of float32; third ones would show more.
_NEGLIGIBLE = 1e-4

# The size of a grid up to which a whole matrix is faster than a band (benchmarks/read_outs.py
# measures both).
_SMALL = 160


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


def plan_channels(
    shape: tuple[Any, Any],
    scales: Sequence[float],
    geometry: Geometry,
    xp: ModuleType = np,
    traced: Callable | None = None,
) -> tuple[Group, ...]:
    """Plan all scale channels for images of the given height and width, finest channel first.

    Args:
        shape: Height and width, tensors where they are known only when a graph runs.
        scales: sigma_0 of the channels.
        geometry: What else the plan depends on.
        xp: Array functions: NumPy's, or `keras.ops` where the shape consists of tensors.
        traced: For tensors, `(key, function) -> function`, which makes a graph hold a function
            that is called many times only once for each key.
    """
    grids = [channel_grids(shape, scale, geometry, xp) for scale in scales]
    if xp is np:
        operator = smoothing_operator
    else:
        operator = functools.partial(smoothing_operator.__wrapped__, traced=traced, xp=xp)
    channels = [_plan_channel(i, scales, grids, geometry, operator) for i in range(len(scales))]
    if xp is not np:
        return tuple(channels)
    groups: list[Group] = []
    for channel in channels:
        if groups and _signature(groups[-1], geometry) == _signature(channel, geometry):
            channel = _together(groups.pop(), channel)
        groups.append(channel)
    return tuple(groups)


def _together(group: Group, channel: Group) -> Group:
    edges = tuple(
        tuple(a + b for a, b in zip(here, there, strict=True))
        for here, there in zip(group.edges, channel.edges, strict=True)
    )
    outputs = None
    if group.outputs is not None and channel.outputs is not None:
        outputs = group.outputs + channel.outputs
    return Group(group.scales + channel.scales, edges, outputs)


def _signature(group: Group, geometry: Geometry) -> tuple:
    """What channels must have in common to share a batch: all grids, and shared operators."""
    spacings = geometry.spacings
    found: list[Any] = []
    for node, edges in zip(geometry.nodes, group.edges, strict=True):
        edge = edges[0][0]
        lifted = spacings[node.inputs[0]] == 0
        if isinstance(edge, Operator) and lifted:
            edge = edge.sigma, edge.rows.shape[0], edge.columns.shape[0]
        found.append(edge)
    return tuple(found)


def _plan_channel(
    i: int, scales: Sequence[float], grids: list, geometry: Geometry, operator: Callable
) -> Group:
    """One channel's plan; everything but the lift is measured in units of sigma_0."""
    here, edges = grids[i], []
    for n, node in enumerate(geometry.nodes, start=1):
        sources = [here[k] for k in node.inputs]
        if node.neighbors:
            for j in (i - 1, i + 1):
                beside = grids[j][node.inputs[0]] if 0 <= j < len(scales) else None
                sources.append(beside and _in_units(beside, scales[j] / scales[i]))
        lifted = geometry.spacings[node.inputs[0]] == 0
        edges.append(tuple((_edge(s, here[n], node, lifted, geometry, operator),) for s in sources))
    outputs = None
    if geometry.has_maps and geometry.maps == "pixels" and geometry.sampling == "matched":
        outputs = (operator(here[-1], here[0], _least(here[-1]), 0, geometry, geometry.boundary),)
    return Group((scales[i],), tuple(edges), outputs)


def _in_units(axes: tuple[Axis, Axis], ratio: float) -> tuple[Axis, ...]:
    """Another channel's grid, measured in this one's sigma_0."""
    return tuple(
        Axis(Grid(axis.grid.size, axis.grid.step * ratio), axis.edge * ratio, axis.cut)
        for axis in axes
    )


def _edge(
    source: tuple[Axis, Axis] | None,
    target: tuple[Axis, Axis] | None,
    node: Node,
    lifted: bool,
    geometry: Geometry,
    operator: Callable,
) -> Operator | Crop | None:
    """What brings a node's input to its grid."""
    if source is None or target is None:
        return None
    boundary = "edge" if lifted and geometry.surround else geometry.boundary
    if node.sigma is not None:
        moments = 4 if lifted and geometry.sampling == "matched" else 2
        return operator(source, target, node.sigma, node.margin, geometry, boundary, moments)
    if abs(source[0].grid.step / target[0].grid.step - 1) > 1e-9:
        return operator(source, target, _least(source), 0, geometry, boundary)
    here, there = ([axis.grid.size for axis in axes] for axes in (source, target))
    same = all(a is b or (isinstance(a, int) and a == b) for a, b in zip(here, there, strict=True))
    return None if same else Crop(*there)


def _least(source: tuple[Axis, Axis]) -> float:
    """The least smoothing that a position between the points of a grid takes: half a step.

    It is constant over the plane and the same in every channel, so that it keeps the covariance,
    and small beside the smoothing that made the source.
    """
    return source[0].grid.step / 2


@lru_cache(maxsize=1024)
def smoothing_operator(
    source: tuple[Axis, Axis],
    target: tuple[Axis, Axis],
    sigma: float,
    margin: int,
    geometry: Geometry,
    boundary: str,
    moments: int = 2,
    traced: Callable | None = None,
    xp: ModuleType = np,
) -> Operator:
    """Smoothing between two grids; cached, so that channels with equal grids share one object.

    Where the image is lifted is where scale channels could differ: the finer one is, the more the
    third and fourth moments of T do. So they are set right there.
    """
    rows, columns = (
        _matrix(here, there.grid.padded(margin), sigma, geometry, boundary, moments, traced, xp)
        for here, there in zip(source, target, strict=True)
    )
    factors, wanted = None, geometry.sampling == "dense" and margin == 1
    if wanted and isinstance(rows, np.ndarray) and isinstance(columns, np.ndarray):
        tolerance = min(_NEGLIGIBLE, geometry.truncation)
        factors = factored(rows, tolerance), factored(columns, tolerance)
    return Operator(rows, columns, sigma / target[0].grid.step, factors)


def _matrix(
    source: Axis,
    target: Grid,
    sigma: float,
    geometry: Geometry,
    boundary: str,
    moments: int,
    traced: Callable | None,
    xp: ModuleType,
) -> np.ndarray | Band:
    """Smoothing along one axis: a matrix where it is small, a band where it is not, or may be."""
    steps = source.grid.step, target.step

    def sample(size: Any, count: Any, edge: Any, cut: Any, way: Callable) -> Any:
        # A cone's end is no edge of the image: nothing is known to be zero beyond it.
        ends = {"edge": edge, "mirrored": cut, "xp": xp}
        grids = Grid(size, steps[0]), Grid(count, steps[1])
        return way(*grids, sigma, boundary, geometry.truncation, moments, **ends)

    arguments = source.grid.size, target.size, source.edge, source.cut
    if xp is np:
        whole = source.grid.size <= _SMALL or geometry.sampling == "dense"
        return sample(*arguments, sampling_matrix if whole else sampling_band)
    # In units of sigma_0 all channels have the same steps, and so share one function.
    key = (*(round(step, 9) for step in steps), sigma, moments, boundary)

    def parts(size: Any, count: Any, edge: Any, cut: Any) -> Any:
        return sample(size, count, edge, cut, sampling_band)[:2]

    starts, weights = (traced(key, parts) if traced else parts)(*arguments)
    return Band(starts, weights, (target.size, source.grid.size))


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
