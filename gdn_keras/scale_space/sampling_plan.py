"""The grids of a network's tensors in matched scale channels, and the operators between them.

A scale channel with initial scale sigma_0 runs layers at sigma_k = beta_k sigma_0. *Matched*
sampling gives layer k a grid of step h_k in proportion to its own sigma_k, centred on the image.
Measured in sigma_0, grids and operators are the same numbers in every scale channel: the channels
run one and the same discrete network, and scale matters only where the image is resampled onto the
first grid.

Where only the centre is read, each tensor is needed only within the reach of the layers above it:
the *receptive cone*.

Where the size of images is known only when a graph runs, `xp` are the array functions of that graph
(`keras.ops`), as in `grids`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.scale_space.gaussian import truncation_radius
from gdn_keras.scale_space.grids import Band, Grid, sampling_band, sampling_matrix

# Half-width of a matched channel's receptive cone, in standard deviations of the smoothing that
# is still to come. Of those that were compared, the widest that takes no more time than a plain
# CNN; it is as accurate as 2 on all of MNIST and on photographs (docs/experiments.md).
DEFAULT_CONE = 1.75

SAMPLINGS = ("matched", "dense")

# The size of a grid up to which a whole matrix is faster than a band.
_SMALL = 160

EVERYWHERE = math.inf


class Node(NamedTuple):
    """One tensor of a network, as far as grids are concerned.

    Attributes:
        inputs: Indices of the tensors that it is computed from; the image is tensor 0.
        sigma: beta_k, if it is computed by smoothing to sigma_k and sampling on a grid matched to
            it. If `None`, it is computed point by point, on the coarsest of its inputs' grids.
        margin: Radius of the stencils that are applied after smoothing.
        read: "center" or "everywhere" for a read-out, which leaves no grid; these say where its
            input is read.
    """

    inputs: tuple[int, ...]
    sigma: float | None = None
    margin: int = 0
    read: str | None = None


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


class Cost(NamedTuple):
    """Multiply-adds of a layer for one image: of smoothing, and of what learned weights are in."""

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
    """

    rows: np.ndarray | Band
    columns: np.ndarray | Band
    sigma: float

    def cost(self, c_in: int, c_out: int, margin: int) -> Cost:
        """Of a layer with this operator, for one image."""
        (p, _), (q, w) = self.rows.shape, self.columns.shape
        down, across = (_row_length(matrix) for matrix in (self.rows, self.columns))
        smoothing = (p * down * w + p * q * across) * c_in
        p, q, taps = p - 2 * margin, q - 2 * margin, (2 * margin + 1) ** 2
        return Cost(smoothing, p * q * taps * c_in * c_out)


def _row_length(matrix: np.ndarray | Band) -> int:
    """Entries of a row that are multiplied."""
    return matrix.shape[1] if isinstance(matrix, np.ndarray) else matrix.weights.shape[2]


@dataclass(frozen=True)
class Group:
    """Scale channels whose tensors have equal grids, and so can share a batch.

    Attributes:
        scales: sigma_0 of the channels.
        edges: For each node and each of its inputs, what brings the input to the node's grid in
            each channel: an `Operator`, a `Crop`, or `None` where they have the same grid.
        outputs: For maps on pixels, the operator from the last grid to them, one per channel.
    """

    scales: tuple[float, ...]
    edges: tuple[tuple[tuple[Operator | Crop | None, ...], ...], ...]
    outputs: tuple[Operator, ...] | None


@dataclass(frozen=True)
class Plan:
    """The grids of a network's tensors in scale channels, for images of any size.

    Attributes:
        nodes: The network's tensors in the order of their computation, the image left out.
        boundary: The boundary rule.
        truncation: Bound on the mass cut off each smoothing kernel.
        density: Grid points of a matched layer per sigma_k: h_k = sigma_k / density.
        cone: Half-width of a channel's receptive cone, in standard deviations of the smoothing that
            is still to come.
        to_pixels: Whether the last tensor of a network without a read-out is brought to the image's
            pixels.
        surround: Share of the image's height and width by which feature maps go on beyond it on
            each side; the image is then continued with its edge pixels, without end.
    """

    nodes: tuple[Node, ...]
    boundary: str
    truncation: float
    density: float = 1.0
    cone: float = DEFAULT_CONE
    to_pixels: bool = True
    surround: float = 0.0

    @functools.cached_property
    def spacings(self) -> tuple[float | None, ...]:
        """beta of the grid that each tensor is on: 0 for the image's pixels, `None` for no grid."""
        return grid_spacings(self.nodes)

    @property
    def has_maps(self) -> bool:
        """Whether the network ends on a grid, without a read-out."""
        return self.spacings[-1] is not None

    @functools.cached_property
    def reaches(self) -> list[float]:
        """Standard deviation of all smoothing between each tensor and the centre, in sigma_0.

        `EVERYWHERE` for what is read at all places.
        """
        variance = [0.0] * (len(self.nodes) + 1)
        variance[-1] = EVERYWHERE
        for node, own in zip(reversed(self.nodes), range(len(variance) - 1, 0, -1), strict=True):
            wanted = {"center": 0.0, "everywhere": EVERYWHERE}.get(node.read or "", variance[own])
            for k in node.inputs:
                added, source, target = 0.0, self.spacings[k], self.spacings[own]
                if node.sigma is not None:
                    added = node.sigma**2
                elif source is not None and target is not None and source != target:
                    added = (source / self.density / 2) ** 2
                variance[k] = max(variance[k], wanted + added)
        return [math.sqrt(v) for v in variance]

    def groups(
        self,
        shape: tuple[Any, Any],
        scales: Sequence[float],
        xp: ModuleType = np,
        traced: Callable | None = None,
    ) -> tuple[Group, ...]:
        """Operators of all scale channels for images of a height and width, finest channel first.

        Args:
            shape: Height and width, tensors where they are known only when a graph runs.
            scales: sigma_0 of the channels.
            xp: Array functions: NumPy's, or `keras.ops` where the shape consists of tensors.
            traced: For tensors, `(key, function) -> function`, which makes a graph hold a function
                that is called many times only once for each key.
        """
        make = smoothing_operator
        if xp is not np:
            make = functools.partial(smoothing_operator.__wrapped__, xp=xp, traced=traced)
        channels = [self._channel(shape, scale, xp, make) for scale in scales]
        if xp is not np:
            return tuple(channels)
        groups: list[Group] = []
        for channel in channels:
            if groups and self._signature(groups[-1]) == self._signature(channel):
                channel = _together(groups.pop(), channel)
            groups.append(channel)
        return tuple(groups)

    def point_grids(
        self, shape: tuple[Any, Any], scales: Sequence[float], xp: ModuleType = np
    ) -> tuple[PointGrid, ...]:
        """The grid that each scale channel of a network without a read-out ends on."""
        if not self.has_maps:
            raise ValueError("There are points only without a read-out. Received: a plan with one")
        found = []
        for scale in scales:
            rows, columns = (self._axes(size, scale, xp)[-1].grid for size in shape)
            found.append(PointGrid(scale, rows.step * scale, rows.size, columns.size))
        return tuple(found)

    def costs(
        self, shape: tuple[int, int], scales: Sequence[float], features: Sequence[int]
    ) -> list[Cost]:
        """Multiply-adds of each tensor for one image: matrix products and convolutions.

        Layers that act on each point alone, and bringing maps back to pixels, are not counted.

        Args:
            shape: Height and width of the image.
            scales: sigma_0 of the channels.
            features: Feature channels of all tensors, the image first.
        """
        groups = self.groups(shape, scales)
        costs = []
        for n, node in enumerate(self.nodes):
            c_out = features[n + 1] if node.sigma else 0
            found = [
                edge.cost(features[k], c_out, node.margin)
                for group in groups
                for k, edges in zip(node.inputs, group.edges[n], strict=True)
                for edge in edges
                if isinstance(edge, Operator)
            ]
            costs.append(Cost(*(sum(part) for part in zip((0, 0), *found, strict=True))))
        return costs

    def _axes(self, size: Any, scale: float, xp: ModuleType) -> list[Any]:
        """The grids of all tensors along one axis, the image first; `None` after a read-out."""
        image = Axis(Grid(size, 1 / scale), size / scale / 2, False)
        end = image.edge * (1 + 2 * self.surround)
        known: dict[tuple, Axis] = {}
        axes: list[Axis | None] = []
        for reach, spacing in zip(self.reaches, self.spacings, strict=True):
            if spacing is None or spacing == 0:
                axes.append(None if spacing is None else image)
                continue
            if (reach, spacing) not in known:  # tensors of equal grids share one object
                known[reach, spacing] = self._axis(end, reach, spacing, xp)
            axes.append(known[reach, spacing])
        return axes

    def _axis(self, end: Any, reach: float, spacing: float, xp: ModuleType) -> Axis:
        """An odd number of points about the image's centre, as far as surroundings or cone go."""
        step = spacing / self.density
        # The last point lies inside the image and its surroundings, at most a step from their edge.
        to_edge = xp.maximum(0.0, xp.ceil(end / step - 1 - 1e-6))
        if reach == EVERYWHERE:
            half, edge, cut = to_edge, end, False
        else:
            half = xp.minimum(to_edge, math.ceil(self.cone * reach / step))
            cut = half < to_edge
            edge = xp.where(cut, (half + 0.5) * step, end)
        if xp is np:  # Python's numbers, which can be compared and hashed
            half, edge, cut = int(half), float(edge), bool(cut)
        return Axis(Grid(2 * half + 1, step), edge, cut)

    def _channel(
        self, shape: tuple[Any, Any], scale: float, xp: ModuleType, make: Callable
    ) -> Group:
        """One channel; everything but the lift is measured in units of sigma_0."""
        rows, columns = (self._axes(size, scale, xp) for size in shape)
        grids = [r and (r, c) for r, c in zip(rows, columns, strict=True)]
        edges = []
        for n, node in enumerate(self.nodes, start=1):
            lifted = self.spacings[node.inputs[0]] == 0
            sources = [grids[k] for k in node.inputs]
            edges.append(tuple((self._edge(x, grids[n], node, lifted, make),) for x in sources))
        outputs = None
        if self.has_maps and self.to_pixels:
            rules = self.boundary, self.truncation
            outputs = (make(grids[-1], grids[0], _least(grids[-1]), 0, *rules),)
        return Group((scale,), tuple(edges), outputs)

    def _edge(
        self,
        source: tuple[Axis, Axis] | None,
        target: tuple[Axis, Axis] | None,
        node: Node,
        lifted: bool,
        make: Callable,
    ) -> Operator | Crop | None:
        """What brings a node's input to its grid."""
        if source is None or target is None:
            return None
        rules = "edge" if lifted and self.surround else self.boundary, self.truncation
        if node.sigma is not None:
            return make(source, target, node.sigma, node.margin, *rules, 4 if lifted else 2)
        if abs(source[0].grid.step / target[0].grid.step - 1) > 1e-9:
            return make(source, target, _least(source), 0, *rules)
        pairs = [(a.grid.size, b.grid.size) for a, b in zip(source, target, strict=True)]
        same = all(a is b or (isinstance(a, int) and a == b) for a, b in pairs)
        return None if same else Crop(*(b for _, b in pairs))

    def _signature(self, group: Group) -> tuple:
        """What channels must have in common to share a batch: all grids, and shared operators."""
        found: list[Any] = []
        for node, edges in zip(self.nodes, group.edges, strict=True):
            edge = edges[0][0]
            if isinstance(edge, Operator) and self.spacings[node.inputs[0]] == 0:
                edge = edge.sigma, edge.rows.shape[0], edge.columns.shape[0]
            found.append(edge)
        return tuple(found)


def grid_spacings(nodes: Sequence[Node]) -> tuple[float | None, ...]:
    """beta of the grid that each tensor is on: 0 for the image's pixels, `None` for no grid."""
    found: list[float | None] = [0.0]
    for node in nodes:
        inputs = [found[i] for i in node.inputs]
        sources = [spacing for spacing in inputs if spacing is not None]
        if node.read or len(sources) < len(inputs):
            found.append(None)
        else:
            found.append(max(sources) if node.sigma is None else node.sigma)
    return tuple(found)


def cascade(
    sigmas: Sequence[float], margins: Sequence[int] | None = None, read: str | None = "center"
) -> tuple[Node, ...]:
    """The nodes of layers one after the other, at the given beta_k, with a read-out at the end."""
    margins = [1] * len(sigmas) if margins is None else margins
    layers = zip(range(len(sigmas)), sigmas, margins, strict=True)
    nodes = [Node((k,), sigma, margin) for k, sigma, margin in layers]
    return tuple([*nodes, Node((len(nodes),), read=read)] if read else nodes)


def dense_costs(
    nodes: Sequence[Node],
    truncation: float,
    shape: tuple[int, int],
    scales: Sequence[float],
    features: Sequence[int],
) -> list[Cost]:
    """`Plan.costs` for dense sampling: two depthwise convolutions and one with the stencils."""
    points, costs = shape[0] * shape[1], []
    for n, node in enumerate(nodes):
        c_in, c_out, mixing, smoothing = features[node.inputs[0]], features[n + 1], 0, 0
        for scale in scales if node.sigma else ():
            taps = 2 * truncation_radius((node.sigma or 0) * scale, truncation) + 1
            smoothing += 2 * taps * points * c_in
            mixing += (2 * node.margin + 1) ** 2 * points * c_in * c_out
        costs.append(Cost(smoothing, mixing))
    return costs


def _together(group: Group, channel: Group) -> Group:
    edges = tuple(
        tuple(a + b for a, b in zip(here, there, strict=True))
        for here, there in zip(group.edges, channel.edges, strict=True)
    )
    outputs = None
    if group.outputs is not None and channel.outputs is not None:
        outputs = group.outputs + channel.outputs
    return Group(group.scales + channel.scales, edges, outputs)


def _least(source: tuple[Axis, Axis]) -> float:
    """The least smoothing that a position between the points of a grid takes: half a step.

    It is constant over the plane and the same in every channel, so that it keeps the covariance,
    and small beside the smoothing that made the source.
    """
    return source[0].grid.step / 2


@functools.lru_cache(maxsize=1024)
def smoothing_operator(
    source: tuple[Axis, Axis],
    target: tuple[Axis, Axis],
    sigma: float,
    margin: int,
    boundary: str,
    truncation: float,
    moments: int = 2,
    xp: ModuleType = np,
    traced: Callable | None = None,
) -> Operator:
    """Smoothing between two grids; cached, so that channels with equal grids share one object.

    Where the image is lifted is where scale channels could differ: the finer one is, the more the
    third and fourth moments of T do. So they are set right there.
    """

    def sample(size: Any, count: Any, edge: Any, cut: Any, steps: tuple, way: Callable) -> Any:
        # A cone's end is no edge of the image: nothing is known to be zero beyond it.
        ends = {"edge": edge, "mirrored": cut, "xp": xp}
        grids = Grid(size, steps[0]), Grid(count, steps[1])
        return way(*grids, sigma, boundary, truncation, moments, **ends)

    def matrix(here: Axis, there: Grid) -> np.ndarray | Band:
        steps = here.grid.step, there.step
        arguments = here.grid.size, there.size, here.edge, here.cut
        if xp is np:
            whole = here.grid.size <= _SMALL
            return sample(*arguments, steps, sampling_matrix if whole else sampling_band)
        # In units of sigma_0 all channels have the same steps, and so share one function.
        key = (*(round(step, 9) for step in steps), sigma, moments, boundary)

        def parts(size: Any, count: Any, edge: Any, cut: Any) -> Any:
            return sample(size, count, edge, cut, steps, sampling_band)[:2]

        starts, weights = (traced(key, parts) if traced else parts)(*arguments)
        return Band(starts, weights, (there.size, here.grid.size))

    rows, columns = (
        matrix(here, there.grid.padded(margin)) for here, there in zip(source, target, strict=True)
    )
    return Operator(rows, columns, sigma / target[0].grid.step)
