"""The arithmetic that a network needs, forward and in a training step."""

from collections.abc import Sequence

from gdn_keras.layers import ScaleChannels


def needed_multiply_adds(channels: ScaleChannels, shape: Sequence[int], mode: str) -> int:
    """Multiply-adds for one image [height, width, channels], "forward" or in a "training" step.

    Backward, a convolution costs once more for its input and once more for its kernel, smoothing
    only for its input since its matrices are not learned, and the image needs no gradient.
    """
    first, *others = (cost for cost in channels.costs(shape) if sum(cost))
    if mode == "forward":
        return sum(first) + sum(map(sum, others))
    return (
        first.smoothing
        + 2 * first.mixing
        + sum(2 * cost.smoothing + 3 * cost.mixing for cost in others)
    )
