"""The grids of a network's tensors in matched scale channels, and the operators between them.

A scale channel with initial scale sigma_0 runs layers at sigma_k = beta_k sigma_0. *Matched*
sampling gives layer k a grid of step h_k in proportion to its own sigma_k, centered on the image.
Measured in sigma_0, grids and operators are the same numbers in every scale channel, which thus run
one and the same discrete network; scale matters only where the image is resampled onto the first
grid. Where only the center is read, each tensor is needed only within the reach of the layers above
it: the *receptive cone*.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.scale_space.grids import Band, Grid, sampling_band, sampling_matrix
from gdn_keras.scale_space.kernels import truncation_radius

# Half-width of a matched channel's receptive cone, in standard deviations of the smoothing that
# is still to come. Of those that were compared, the widest that takes no more time than a plain
# CNN; it is as accurate as 2 on all of MNIST and on photographs (docs/research.md).
DEFAULT_CONE = 1.75

SAMPLINGS = ("matched", "dense")

# The size of a grid up to which a whole matrix is faster than a band.
_SMALL = 160

EVERYWHERE = math.inf

Plane = tuple[Grid, Grid]  # of the rows and the columns of an image, in units of sigma_0


class Node(NamedTuple):
    """One tensor of a network, as far as grids are concerned; the image is tensor 0.

    With a `sigma`, beta_k, it is computed from `inputs` by smoothing to sigma_k, sampling on a grid
    matched to it, and stencils of the radius `margin`; without, point by point on the coarsest of
    its inputs' grids. A read-out, which leaves no grid, says where it will `read` its input:
    "center" or "everywhere".
    """

    inputs: tuple[int, ...]
    sigma: float | None = None
    margin: int = 0
    read: str | None = None


class PointGrid(NamedTuple):
    """The points of a scale channel's last grid, `rows` by `columns`, centered on the image.

    `scale` is sigma_0 of the channel and `step` the distance between neighbors, in pixels.
    """

    scale: float
    step: float
    rows: Any
    columns: Any


class Cost(NamedTuple):
    """Multiply-adds of a layer for one image: of smoothing, and of what learned weights are in."""

    smoothing: int
    mixing: int


class Operator(NamedTuple):
    """Smoothing, boundary, crop and sampling of an image: A_y X A_x^T.

    A_y is [target rows, source rows], the stencils' margin included; a `Band` if it is large.
    """

    rows: np.ndarray | Band
    columns: np.ndarray | Band

    def cost(self, c_in: int, c_out: int, margin: int) -> Cost:
        """Of a layer with this operator, for one image."""
        (p, _), (q, w) = self.rows.shape, self.columns.shape
        down, across = (
            matrix.shape[1] if isinstance(matrix, np.ndarray) else matrix.weights.shape[2]
            for matrix in self
        )
        smoothing = (p * down * w + p * q * across) * c_in
        p, q, taps = p - 2 * margin, q - 2 * margin, (2 * margin + 1) ** 2
        return Cost(smoothing, p * q * taps * c_in * c_out)


class Batch(NamedTuple):
    """Scale channels whose tensors have equal grids, and so can share a batch."""

    scales: tuple[float, ...]
    images: tuple[Plane, ...]  # the pixels of the image, in each channel
    grids: tuple[Plane | None, ...]  # of all tensors; `None` for the image and after a read-out


@dataclass(frozen=True)
class Plan:
    """The grids of a network's tensors in scale channels, for images of any size.

    Attributes:
        nodes: The network's tensors in the order of their computation, the image left out.
        boundary: The boundary rule.
        truncation: Bound on the mass cut off each smoothing kernel.
        density, cone, surround, border: As in `ScaleChannels`.
    """

    nodes: tuple[Node, ...]
    boundary: str
    truncation: float
    density: float = 1.0
    cone: float = DEFAULT_CONE
    surround: float = 0.0
    border: float = 0.0

    @functools.cached_property
    def spacings(self) -> tuple[float | None, ...]:
        """beta of the grid that each tensor is on: 0 for the image's pixels, `None` for no grid."""
        return grid_spacings(self.nodes)

    @functools.cached_property
    def reaches(self) -> list[float]:
        """Standard deviation of all smoothing between tensors and center, or `EVERYWHERE`."""
        variance = [0.0] * (len(self.nodes) + 1)
        variance[-1] = EVERYWHERE
        for own, node in reversed([*enumerate(self.nodes, start=1)]):
            wanted = {"center": 0.0, "everywhere": EVERYWHERE}.get(node.read or "", variance[own])
            for k in node.inputs:
                added, source, target = 0.0, self.spacings[k], self.spacings[own]
                if node.sigma is not None:
                    added = node.sigma**2
                elif source is not None and target is not None and source != target:
                    added = (source / self.density / 2) ** 2
                variance[k] = max(variance[k], wanted + added)
        return [math.sqrt(v) for v in variance]

    def batches(self, shape: tuple[Any, Any], scales: Sequence[float]) -> tuple[Batch, ...]:
        """The grids of all channels, finest first; neighbors of equal grids are one batch."""
        return _batches(self, tuple(shape), tuple(scales))

    def point_grids(self, shape: tuple[Any, Any], scales: Sequence[float]) -> tuple[PointGrid, ...]:
        """The grid that each scale channel of a network without a read-out ends on."""
        found = []
        for batch in self.batches(shape, scales):
            if batch.grids[-1] is None:
                raise ValueError("There are points only without a read-out. Received: one with it")
            rows, columns = batch.grids[-1]
            counts = rows.size, columns.size
            found += [PointGrid(scale, rows.step * scale, *counts) for scale in batch.scales]
        return tuple(found)

    def operators(self, batch: Batch, source: int, target: int) -> tuple[Operator | None, ...]:
        """What brings one tensor to the grid of another, by channel; `None` where a crop does."""
        onto, lifted = batch.grids[target], self.spacings[source] == 0
        sources = batch.images if lifted else (batch.grids[source],)
        found = tuple(
            None if grid is None or onto is None else self._operator(grid, onto, target, lifted)
            for grid in sources
        )
        return found if lifted else found * len(batch.scales)

    def operators_to_pixels(self, batch: Batch) -> tuple[Operator, ...]:
        """What brings the last tensor to the image's pixels, by channel."""
        source: Any = batch.grids[-1]
        return tuple(self._resampling(source, x) for x in batch.images)

    def costs(
        self, shape: tuple[int, int], scales: Sequence[float], features: Sequence[int]
    ) -> list[Cost]:
        """Multiply-adds of each node for one image of a height and width, all channels together.

        `features` are the feature channels of all tensors, the image's first. Layers on vectors,
        after a read-out, are left out; they cost next to nothing.
        """
        batches, costs = self.batches(shape, scales), []
        for n, node in enumerate(self.nodes, start=1):
            found = [
                operator.cost(features[k], features[n] if node.sigma else 0, node.margin)
                for batch in batches
                for k in node.inputs
                for operator in self.operators(batch, k, n)
                if operator is not None
            ]
            costs.append(Cost(*(sum(part) for part in zip((0, 0), *found, strict=True))))
        return costs

    def channel(self, shape: tuple[Any, Any], scale: float) -> Batch:
        """One channel; everything but the image is measured in units of sigma_0."""
        image, planes = self._image(shape, scale), {}
        ends = [size / scale / 2 * (1 + 2 * self.surround) + self.border for size in shape]
        for spacing, reach in zip(self.spacings, self.reaches, strict=True):
            if spacing and (spacing, reach) not in planes:  # tensors of equal grids share one
                planes[spacing, reach] = tuple(self._grid(end, spacing, reach) for end in ends)
        grids = [planes.get(key) for key in zip(self.spacings, self.reaches, strict=True)]
        return Batch((scale,), (image,), tuple(grids))

    def _image(self, shape: tuple[Any, Any], scale: float) -> Plane:
        height, width = shape
        return Grid(height, 1 / scale), Grid(width, 1 / scale)

    def _grid(self, end: float, spacing: float, reach: float) -> Grid:
        """An odd number of points about the image's center, as far as surroundings or cone go."""
        step = spacing / self.density
        # The last point lies inside the image and its surroundings, at most a step from their edge.
        to_edge = max(0, math.ceil(end / step - 1 - 1e-6))
        to_cone = math.ceil(self.cone * reach / step) if reach < EVERYWHERE else to_edge
        if to_cone < to_edge:
            return Grid(2 * to_cone + 1, step, edge=(to_cone + 0.5) * step, cut=True)
        return Grid(2 * to_edge + 1, step, edge=end)

    def _operator(self, source: Plane, target: Plane, number: int, lifted: bool) -> Operator | None:
        node = self.nodes[number - 1]
        if node.sigma is None:
            same = abs(source[0].step / target[0].step - 1) < 1e-9
            return None if same else self._resampling(source, target)
        boundary = "edge" if lifted and self.surround else self.boundary
        # Where the image is lifted is where scale channels could differ: the finer one is, the more
        # the third and fourth moments of T do. So they are set right there.
        rules = node.sigma, boundary, self.truncation, 4 if lifted else 2
        return self._smoothing(source, target, node.margin, *rules)

    def _resampling(self, source: Plane, target: Plane) -> Operator:
        """With the least smoothing that a position between grid points takes: half a step."""
        rules = source[0].step / 2, self.boundary, self.truncation, 2
        return self._smoothing(source, target, 0, *rules)

    def _smoothing(self, source: Plane, target: Plane, margin: int, *rules: Any) -> Operator:
        return smoothing_operator(source, target, margin, *rules)


@functools.lru_cache(maxsize=256)
def _batches(plan: Plan, shape: tuple[int, int], scales: tuple[float, ...]) -> tuple[Batch, ...]:
    channels = [plan.channel(shape, scale) for scale in scales]
    found = []
    for grids, group in itertools.groupby(channels, key=lambda channel: channel.grids):
        own_scales, images, _ = zip(*group, strict=True)
        found.append(Batch(sum(own_scales, ()), sum(images, ()), grids))
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


def cascade(sigmas: Sequence[float], read: str | None = "center") -> tuple[Node, ...]:
    """The nodes of layers one after the other, at the given beta_k, with a read-out at the end."""
    layers = [Node((k,), sigma, margin=1) for k, sigma in enumerate(sigmas)]
    return tuple([*layers, Node((len(layers),), read=read)] if read else layers)


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
        c_in, c_out = features[node.inputs[0]], features[n + 1]
        sigmas = [node.sigma * scale for scale in scales] if node.sigma else []
        taps = sum(2 * (2 * truncation_radius(sigma, truncation) + 1) for sigma in sigmas)
        stencils = len(sigmas) * (2 * node.margin + 1) ** 2
        costs.append(Cost(taps * points * c_in, stencils * points * c_in * c_out))
    return costs


@functools.lru_cache(maxsize=1024)
def smoothing_operator(source: Plane, target: Plane, margin: int, *rules: Any) -> Operator:
    """Smoothing between two grids; cached, so that channels with equal grids share one object.

    `rules` are sigma and what follows it in `sampling_matrix`.
    """
    matrices = []
    for here, there in zip(source, target, strict=True):
        sample = sampling_matrix if here.size <= _SMALL else sampling_band
        matrices.append(sample(here, there.padded(margin), *rules))
    return Operator(*matrices)
