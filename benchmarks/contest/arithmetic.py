"""The arithmetic that a plan needs, forward and in a training step."""

from collections.abc import Sequence

from gdn_keras.scale_space import Group, LayerCost


def layer_costs(
    plan: Sequence[Group], widths: Sequence[int], input_channels: int, margins: Sequence[int]
) -> list[LayerCost]:
    """LayerCost of each layer, forward; the sum is `gdn_keras.scale_space.multiply_adds`."""
    costs = []
    for k, (c_in, c_out) in enumerate(zip([input_channels, *widths[:-1]], widths, strict=True)):
        found = [
            operator.cost(c_in, c_out, margins[k])
            for group in plan
            for operator in (group.lifts if k == 0 else [group.operators[k - 1]] * len(group.lifts))
        ]
        costs.append(LayerCost(*map(sum, zip(*found, strict=True))))
    return costs


def needed_multiply_adds(
    plan: Sequence[Group],
    widths: Sequence[int],
    input_channels: int,
    margins: Sequence[int],
    mode: str,
) -> int:
    """Multiply-adds for one image, "forward" or in a "training" step.

    Backward, a convolution costs once more for its input and once more for its kernel, smoothing
    only for its input since its matrices are not learned, and the image needs no gradient.
    """
    first, *others = layer_costs(plan, widths, input_channels, margins)
    if mode == "forward":
        return sum(cost.smoothing + cost.mixing for cost in (first, *others))
    beyond_first = sum(2 * cost.smoothing + 3 * cost.mixing for cost in others)
    return first.smoothing + 2 * first.mixing + beyond_first
