"""The arithmetic that a network needs, forward and in a training step."""

from collections.abc import Sequence

from gdn_keras.layers import ScaleChannels
from gdn_keras.scale_space import layer_costs


def needed_multiply_adds(channels: ScaleChannels, shape: Sequence[int], mode: str) -> int:
    """Multiply-adds for one image [height, width, channels], "forward" or in a "training" step.

    Backward, a convolution costs once more for its input and once more for its kernel, smoothing
    only for its input since its matrices are not learned, and the image needs no gradient.
    """
    *size, features = shape
    plan = channels.plan(size)
    costs = layer_costs(plan, channels.geometry, channels.program.features(features))
    if mode == "forward":
        return sum(sum(cost) for cost in costs)
    return sum(
        cost.smoothing + 2 * cost.mixing
        if 0 in node.inputs
        else 2 * cost.smoothing + 3 * cost.mixing
        for node, cost in zip(channels.geometry.nodes, costs, strict=True)
    )
