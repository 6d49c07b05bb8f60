"""What a network must be to run in scale channels."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from gdn_keras.layers._engine import Program
from gdn_keras.layers.gaussian_derivative import GaussianDerivative
from gdn_keras.scale_space import Geometry


def common_smoothing(network: keras.Model, program: Program) -> Any:
    """A layer that smooths, with the boundary rule and the truncation of them all.

    Raises:
        ValueError: If they have not the same, or there is no GaussianDerivative layer.
    """
    layers = [layer for layer in program.layers if hasattr(layer, "truncation")]
    if not any(isinstance(layer, GaussianDerivative) for layer in layers):
        raise ValueError(
            "`network` must hold at least one GaussianDerivative layer. "
            f"Received: network={network!r}"
        )
    rules = [(layer.boundary, layer.truncation) for layer in layers]
    if len(set(rules)) > 1:
        raise ValueError(
            "The smoothing layers of `network` must share `boundary` and `truncation`. "
            f"Received: {rules}"
        )
    return layers[0]


def check_network(program: Program, geometry: Geometry, scales: Sequence[float]) -> None:
    """Raise unless there is a grid for each layer, not too coarse for the next one."""
    spacings = geometry.spacings
    for node, layer in zip(geometry.nodes, program.layers, strict=True):
        sources = [spacings[k] for k in node.inputs]
        if None in sources and (node.sigma or node.read or set(sources) != {None}):
            raise ValueError(
                "After a read-out there are vectors, which only layers that act on them alone "
                f"can take. Received: {layer!r} after one"
            )
        if 0 in sources and (node.read or node.neighbors or set(sources) != {0}):
            raise ValueError(
                "The image itself has no scale: it must go through a GaussianDerivative or a "
                "GaussianSmoothing layer before it is read, or meets what went through one. "
                f"Received: {layer!r} on the image"
            )
        if node.neighbors:
            _check_progression(scales)
        spacing = sources[0]
        if node.sigma and spacing is not None and geometry.sampling == "matched":
            _check_step(node.sigma, spacing, geometry, scales)


def _check_step(sigma: float, spacing: float, geometry: Geometry, scales: Sequence[float]) -> None:
    """Raise unless a layer smooths by at least half a step of the grid before it."""
    if spacing == 0 and scales[0] * sigma < 0.5 - 1e-6:
        raise ValueError(
            "`scales` must give the first layer a sigma of at least half a pixel, or there is "
            f"nothing to sample between pixels. Received: scales={list(scales)} with "
            f"sigma={sigma:g}"
        )
    if sigma * geometry.density < spacing / 2:
        sigmas = [node.sigma for node in geometry.nodes if node.sigma]
        raise ValueError(
            "Matched grids have `density` points per sigma, and each layer must smooth by at "
            "least half a step of the grid before it: choose a higher `density`, sigmas that "
            f"do not fall, or sampling='dense'. Received: density={geometry.density:g} with "
            f"sigmas={sigmas}"
        )


def _check_progression(scales: Sequence[float]) -> None:
    ratios = np.divide(scales[1:], scales[:-1])
    if len(ratios) and np.ptp(np.log(ratios)) > 0.01:
        raise ValueError(
            "With `ScaleInteraction`, `scales` must be in geometric progression: neighbours "
            f"must be equally far in all channels. Received: scales={list(scales)}"
        )
