"""Which grid points each layer of a scale channel needs, and the operators between them.

A scale channel with initial scale sigma_0 runs layers at sigma_k = beta_k sigma_0. A plan fixes
the grid of every layer and so the matrices that smooth from one layer's grid onto the next one's.

*Dense* sampling is the paper to the letter: every layer on the pixels of the image.

*Matched* sampling gives layer k a grid of step h_k in proportion to its own scale sigma_k, centred
on the image. Measured in sigma_0, grids and operators are the same numbers in every scale channel:
the channels run one and the same discrete network, and the scale enters only in the first
operator, which lifts the image onto the channel's grid.

Where only the centre of the last layer is read, each layer is needed only within the reach of the
layers above it: the *receptive cone*.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gdn_keras.scale_space.gaussian import DEFAULT_TRUNCATION, truncation_radius
from gdn_keras.scale_space.grids import Grid, sampling_matrix
from gdn_keras.scale_space.operators import Operator, factored

# Mass that networks cut off their smoothing kernels. Cut off further out, dense operators have a
# lower rank, which saves more than the longer kernels cost.
DEFAULT_TRUNCATIONS = {"matched": DEFAULT_TRUNCATION, "dense": DEFAULT_TRUNCATION / 10}
SAMPLINGS = tuple(DEFAULT_TRUNCATIONS)

# Half-width of a matched channel's receptive cone, in standard deviations of the smoothing that
# is still to come. Beyond it lies 5e-4 of the mass, along each axis.
_REACH = 3.5

# Singular values of dense operators that are left out where that saves work, at most. What second
# derivatives make of them is below the rounding errors of float32; third ones would show more.
_NEGLIGIBLE = 1e-4


@dataclass(frozen=True)
class Geometry:
    """What a plan depends on, the image and the scale channels apart.

    Attributes:
        sigmas: beta_k = sigma_k / sigma_0 of the layers.
        margins: Radii of their stencils, 1 (or 2 for third-order jets).
        sampling: "matched" or "dense".
        center: Whether only the centre of the last layer is read.
        boundary: The boundary rule.
        truncation: Bound on the mass cut off each smoothing kernel.
        density: Grid points of a matched layer per sigma_k: h_k = sigma_k / density.
    """

    sigmas: tuple[float, ...]
    margins: tuple[int, ...]
    sampling: str
    center: bool
    boundary: str
    truncation: float
    density: float


@dataclass(frozen=True)
class Group:
    """Scale channels that share every operator but the first, and so can share a batch.

    Attributes:
        scales: sigma_0 of the channels.
        lifts: The first layer's operator, one for each channel.
        operators: Operators of the other layers.
        outputs: For map outputs, the operator from the last grid to the pixels, one per channel.
    """

    scales: tuple[float, ...]
    lifts: tuple[Operator, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[Operator, ...] | None


def plan_channels(
    shape: tuple[int, int], scales: Sequence[float], geometry: Geometry
) -> tuple[Group, ...]:
    """Plan all scale channels for images of the given height and width, finest channel first."""
    groups: list[Group] = []
    for scale in scales:
        channel = _plan_channel(tuple(shape), scale, geometry)
        if groups and _signature(groups[-1]) == _signature(channel):
            last = groups.pop()
            outputs = last.outputs and last.outputs + channel.outputs
            channel = Group(
                last.scales + channel.scales, last.lifts + channel.lifts, last.operators, outputs
            )
        groups.append(channel)
    return tuple(groups)


def _signature(group: Group) -> tuple:
    """What channels must have in common to share a batch."""
    lift = group.lifts[0]
    return group.operators, len(lift.rows), len(lift.columns), lift.sigma


def _plan_channel(shape: tuple[int, int], scale: float, geometry: Geometry) -> Group:
    """One channel's plan; everything but the lift is measured in units of sigma_0."""
    axes = [_axis_grids(size, scale, geometry) for size in shape]
    images = [_Layer(Grid(size, 1 / scale), size / scale / 2) for size in shape]
    lift = _operator(tuple(images), tuple(axis[0] for axis in axes), 0, geometry)
    operators = tuple(
        _operator(tuple(axis[k - 1] for axis in axes), tuple(axis[k] for axis in axes), k, geometry)
        for k in range(1, len(geometry.sigmas))
    )
    outputs = None
    if not geometry.center and geometry.sampling == "matched":
        outputs = (_output_operator([axis[-1] for axis in axes], images, geometry),)
    return Group((scale,), (lift,), operators, outputs)


@dataclass(frozen=True)
class _Layer:
    """A layer's grid along one axis, and the edge of the image unless the cone ends before it."""

    grid: Grid
    edge: float | None


def _axis_grids(size: int, scale: float, geometry: Geometry) -> list[_Layer]:
    plan = _dense_grids if geometry.sampling == "dense" else _matched_grids
    return plan(size, scale, geometry)


def _dense_grids(size: int, scale: float, geometry: Geometry) -> list[_Layer]:
    """The image's pixels, within the exact reach of the truncated kernels above."""
    # The centre of an even image is the mean of its two central pixels.
    needed = 2 - size % 2 if geometry.center else size
    layers = []
    for sigma, margin in zip(reversed(geometry.sigmas), reversed(geometry.margins), strict=True):
        edge = size / scale / 2 if needed == size else None
        layers.append(_Layer(Grid(needed, 1 / scale), edge))
        reach = margin + truncation_radius(sigma * scale, geometry.truncation)
        needed = min(size, needed + 2 * reach)
    return layers[::-1]


def _matched_grids(size: int, scale: float, geometry: Geometry) -> list[_Layer]:
    """An odd number of points about the image's centre, as far as the image or the cone goes."""
    layers = []
    edge = size / scale / 2
    for k in range(len(geometry.sigmas)):
        step = geometry.sigmas[k] / geometry.density
        # The last point lies inside the image, at most a step from its edge.
        to_edge = max(0, math.ceil(edge / step - 1 - 1e-6))
        half = min(to_edge, _cone_radius(k, step, geometry)) if geometry.center else to_edge
        layers.append(_Layer(Grid(2 * half + 1, step), edge if half == to_edge else None))
    return layers


def _cone_radius(k: int, step: float, geometry: Geometry) -> int:
    """Grid points of layer k on each side of the centre that the layers above still see."""
    variance = sum(sigma**2 for sigma in geometry.sigmas[k + 1 :])
    return math.ceil(_REACH * math.sqrt(variance) / step)


@lru_cache(maxsize=512)
def _operator(
    source: tuple[_Layer, ...], target: tuple[_Layer, ...], k: int, geometry: Geometry
) -> Operator:
    """The operator of layer k; cached, so that channels with equal grids share one object.

    The lift is where scale channels could differ: the finer one is, the more the third and fourth
    moments of T do. So they are set right there.
    """
    lifted = k == 0 and geometry.sampling == "matched"
    matrices = []
    for here, there in zip(source, target, strict=True):
        matrices.append(
            sampling_matrix(
                here.grid,
                there.grid.padded(geometry.margins[k]),
                geometry.sigmas[k],
                # A cone's end is no edge of the image: nothing is known to be zero beyond it.
                "symmetric" if here.edge is None else geometry.boundary,
                geometry.truncation,
                moments=4 if lifted else 2,
                edge=here.edge,
            )
        )
    factors = None
    if geometry.sampling == "dense" and geometry.margins[k] == 1:
        tolerance = min(_NEGLIGIBLE, geometry.truncation)
        factors = tuple(factored(matrix, tolerance) for matrix in matrices)
    return Operator(*matrices, geometry.sigmas[k] / target[0].grid.step, factors)


def _output_operator(layers: list[_Layer], images: list[_Layer], geometry: Geometry) -> Operator:
    """From the last layer's grid to the pixels, with the least smoothing that any position takes.

    Half a step is constant over the plane and the same in every channel, so that it keeps the
    covariance, and small beside the smoothing of the last layer.
    """
    matrices = [
        sampling_matrix(
            layer.grid,
            image.grid,
            layer.grid.step / 2,
            geometry.boundary,
            geometry.truncation,
            edge=layer.edge,
        )
        for layer, image in zip(layers, images, strict=True)
    ]
    return Operator(*matrices, sigma=0.5)


def multiply_adds(
    groups: Sequence[Group], widths: Sequence[int], input_channels: int, margins: Sequence[int]
) -> int:
    """Multiply-adds that a plan needs for one image, forward: matrix products and convolutions.

    Bringing maps back to the image's pixels, for networks without a centre, is not counted.

    Args:
        groups: From `plan_channels`.
        widths: Feature channels of the layers, the last one included.
        input_channels: Feature channels of the image.
        margins: Radii of the layers' stencils.
    """
    total = 0
    for group in groups:
        for lift in group.lifts:
            c_in = input_channels
            for k, operator in enumerate((lift, *group.operators)):
                total += sum(operator.cost(c_in, widths[k], margins[k]))
                c_in = widths[k]
    return total
