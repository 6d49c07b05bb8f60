"""Which scale channels a network needs for objects of given sizes."""

import math

import numpy as np
from numpy.typing import ArrayLike

from gdn_keras.checks import check_integer, check_positive

# Height of an object over the standard deviation of all smoothing in the channel that it selects.
_HEIGHT = 3.46
_FINEST = -2  # 2^(-2/2): a Gaussian of less than half a pixel is hardly sampled


def suggest_scales(
    heights: ArrayLike, *, layers: int = 6, scale_ratio: float = 1.25
) -> tuple[float, ...]:
    """sigma_0 of the scale channels for objects of these heights: about height / 17, and beside.

    Measured on MNIST Large Scale, whose digits are 20 pixels high at size 1: the mean sigma_0 that
    the four classifiers of digits in `saved_models` select is height / 16.5 to height / 17.8, see
    accuracy.json beside each. That is an object as high as three and a half standard deviations of
    the whole cascade, `sigma_0 sqrt(sum_k scale_ratio^(2k))`, for other numbers of layers too.

    Channels lie at powers of √2, as in the paper, with one more on either side: neighbours are
    selected for one image in five.

    Example:

    >>> tuple(round(scale, 2) for scale in suggest_scales(40))
    (1.41, 2.0, 2.83)
    >>> tuple(round(scale, 2) for scale in suggest_scales([28, 112]))
    (1.0, 1.41, 2.0, 2.83, 4.0, 5.66, 8.0)

    Args:
        heights: Height of the objects in pixels, or several, of which the least and the largest
            count.
        layers: Gaussian derivative layers of the network, the last one included.
        scale_ratio: Of sigma from one layer to the next.

    Returns:
        Increasing values sigma_0, none of them less than 1/2.
    """
    found = [check_positive("heights", height) for height in np.ravel(heights)]
    if not found:
        raise ValueError("`heights` must hold a number. Received: none")
    check_positive("scale_ratio", scale_ratio)
    reach = math.sqrt(sum(scale_ratio ** (2 * k) for k in range(check_integer("layers", layers))))
    ends = (min(found), max(found))
    first, last = (round(2 * math.log2(height / (_HEIGHT * reach))) for height in ends)
    first = max(first - 1, _FINEST)
    return tuple(2 ** (i / 2) for i in range(first, max(last + 1, first) + 1))
