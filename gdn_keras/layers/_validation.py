"""What layers and networks must be given, each with an error of one sentence."""

from collections.abc import Sequence
from typing import Any

import keras

from gdn_keras.scale_space import Node, grid_spacings


def check_fixed(name: str, value: Any) -> Any:
    """Raise if a number that the grids depend on is a variable or a tensor."""
    if isinstance(value, keras.Variable) or keras.ops.is_tensor(value):
        raise ValueError(
            f"`{name}` must be a number: it is fixed and not learned, because the sampling grids "
            f"follow it. Received: {name}={value!r}"
        )
    return value


def check_image_shape(
    layer: keras.Layer,
    input_shape: Sequence[int | None],
    minimum: int = 1,
    channels: int | None = None,
) -> None:
    """Raise unless `input_shape` is [batch, height, width, channels] of a usable size.

    `channels` is the number that the layer was built for, if it depends on it.
    """
    # A graph of TensorFlow that was called with tensors of several ranks knows none of them.
    known = getattr(input_shape, "rank", 4) is not None
    shape = tuple(input_shape) if known else None
    if shape is None or len(shape) != 4:
        raise ValueError(
            f"`{layer.name}` expects images of rank 4, [batch, height, width, channels]. "
            f"Received: input_shape={shape}"
        )
    if channels is not None and shape[3] != channels:
        raise ValueError(
            f"`{layer.name}` was built for images with {channels} feature channels. "
            f"Received: input_shape={shape}"
        )
    if shape[3] is None:
        raise ValueError(
            f"`{layer.name}` needs a known number of feature channels. "
            f"Received: input_shape={shape}"
        )
    if any(size is not None and size < minimum for size in shape[1:3]):
        raise ValueError(
            f"`{layer.name}` needs images of at least {minimum}x{minimum} pixels, with the feature "
            "channels last: [batch, height, width, channels]. "
            f"Received: input_shape={shape}"
        )


def check_smoothing(layers: Sequence[keras.Layer]) -> tuple[str, float]:
    """The boundary rule and the truncation that all smoothing layers must share."""
    rules = {(x.boundary, x.truncation) for x in layers if hasattr(x, "truncation")}
    if len(rules) != 1:
        raise ValueError(
            "`network` must hold GaussianDerivative layers, and all of them must share `boundary` "
            f"and `truncation`. Received: {sorted(rules)}"
        )
    return rules.pop()


def check_nodes(
    layers: Sequence[keras.Layer], nodes: Sequence[Node], spacings: Sequence[float | None]
) -> None:
    """Raise unless each layer is given what it can take: an image, feature maps or vectors."""
    for node, layer in zip(nodes, layers, strict=True):
        sources = [spacings[k] for k in node.inputs]
        if None in sources and (node.sigma or node.read or set(sources) != {None}):
            raise ValueError(
                "After a read-out there are vectors, which only layers that act on them alone "
                f"can take. Received: {layer!r} after one"
            )
        if 0 in sources and (node.read or set(sources) != {0}):
            raise ValueError(
                "The image itself has no scale: it must go through a GaussianDerivative or a "
                "GaussianSmoothing layer before it is read, or meets what went through one. "
                f"Received: {layer!r} on the image"
            )


def check_steps(
    layers: Sequence[keras.Layer], nodes: Sequence[Node], density: float, scales: Sequence[float]
) -> None:
    """Raise unless each layer smooths by at least half a step of the matched grid before it."""
    spacings = grid_spacings(nodes)
    for node, layer in zip(nodes, layers, strict=True):
        spacing = spacings[node.inputs[0]]
        if not node.sigma or spacing is None:
            continue
        if layer.activity_regularizer is not None:
            raise ValueError(
                "In matched channels, GaussianDerivative layers have no outputs of their own to "
                "regularize: leave out `activity_regularizer`, or add an ActivityRegularization "
                f"layer after them. Received: {layer!r}"
            )
        if spacing == 0 and scales[0] * node.sigma < 0.5 - 1e-6:
            raise ValueError(
                "`scales` must give the first layer a sigma of at least half a pixel, or there is "
                f"nothing to sample between pixels. Received: scales={list(scales)} with "
                f"sigma={node.sigma:g}"
            )
        if node.sigma * density < spacing / 2:
            raise ValueError(
                "Matched grids have `density` points per sigma, and each layer must smooth by at "
                "least half a step of the grid before it: choose a higher `density`, sigmas that "
                f"do not fall, or sampling='dense'. Received: density={density:g} with "
                f"sigmas={[other.sigma for other in nodes if other.sigma]}"
            )
