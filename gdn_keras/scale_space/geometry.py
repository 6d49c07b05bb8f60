"""What the grids of a network depend on: its tensors, and how they are sampled.

*Dense* sampling is the paper to the letter: every layer on the pixels of the image.

*Matched* sampling gives layer k a grid of step h_k in proportion to its own scale sigma_k, centred
on the image. Measured in sigma_0, grids and operators are the same numbers in every scale channel:
the channels run one and the same discrete network, and the scale enters only in the first
operators, which lift the image onto the channel's grids.

Where only the centre is read, each tensor is needed only within the reach of the layers above it:
the *receptive cone*.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gdn_keras.scale_space.gaussian import DEFAULT_TRUNCATION

# Mass that networks cut off their smoothing kernels. Cut off further out, dense operators have a
# lower rank, which saves more than the longer kernels cost.
DEFAULT_TRUNCATIONS = {"matched": DEFAULT_TRUNCATION, "dense": DEFAULT_TRUNCATION / 10}
SAMPLINGS = tuple(DEFAULT_TRUNCATIONS)
MAPS = ("pixels", "points")

# Half-width of a matched channel's receptive cone, in standard deviations of the smoothing that
# is still to come. Of those that were compared, the widest that takes no more time than a plain
# CNN; it is as accurate as 2 on all of MNIST and on photographs (docs/experiments.md).
DEFAULT_CONE = 1.75

EVERYWHERE = math.inf


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
    neighbors: bool = False


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
        surround: Share of the image's height and width by which feature maps go on beyond it on
            each side; the image is then continued with its edge pixels, without end.
    """

    nodes: tuple[Node, ...]
    sampling: str
    boundary: str
    truncation: float
    density: float
    cone: float = DEFAULT_CONE
    maps: str = "pixels"
    surround: float = 0.0

    @property
    def has_maps(self) -> bool:
        """Whether the network ends on a grid, without a read-out."""
        return self.spacings[-1] is not None

    @property
    def spacings(self) -> tuple[float | None, ...]:
        """beta of the grid that each tensor is on: 0 for the image's pixels, `None` for no grid."""
        found: list[float | None] = [0.0]
        for node in self.nodes:
            inputs = [found[i] for i in node.inputs]
            sources = [spacing for spacing in inputs if spacing is not None]
            if node.read or len(sources) < len(inputs):
                found.append(None)
            else:
                found.append(max(sources) if node.sigma is None else node.sigma)
        return tuple(found)

    @property
    def reaches(self) -> list[float]:
        """Standard deviation of all smoothing between each tensor and the centre, in sigma_0.

        `EVERYWHERE` for what is read at all places.
        """
        variance = [0.0] * (len(self.nodes) + 1)
        variance[-1] = EVERYWHERE
        spacings = self.spacings
        for node, own in zip(reversed(self.nodes), range(len(variance) - 1, 0, -1), strict=True):
            wanted = {"center": 0.0, "everywhere": EVERYWHERE}.get(node.read or "", variance[own])
            for k in node.inputs:
                added, source, target = 0.0, spacings[k], spacings[own]
                if node.sigma is not None:
                    added = node.sigma**2
                elif source is not None and target is not None and source != target:
                    added = (source / self.density / 2) ** 2
                variance[k] = max(variance[k], wanted + added)
                if node.neighbors:
                    variance[k] = EVERYWHERE
        return [math.sqrt(v) for v in variance]


def cascade(
    sigmas: Sequence[float], margins: Sequence[int] | None = None, read: str | None = "center"
) -> tuple[Node, ...]:
    """The nodes of layers one after the other, at the given beta_k, with a read-out at the end."""
    margins = [1] * len(sigmas) if margins is None else margins
    layers = zip(range(len(sigmas)), sigmas, margins, strict=True)
    nodes = [Node((k,), sigma, margin) for k, sigma, margin in layers]
    return tuple([*nodes, Node((len(nodes),), read=read)] if read else nodes)
