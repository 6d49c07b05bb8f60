"""What the layers share: checks of image shapes, and the choice of how to smooth."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import keras
import numpy as np

from gdn_keras.scale_space import Grid, sampling_matrix, truncation_radius

# Above this many kernel widths, a matrix product spends more on zeros than it gains in speed over
# a depthwise convolution (benchmarks/run.py measures both).
_MATRIX_WIDTHS = 16


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


def fits_matrices(shape: Sequence[int | None], sigma: float, truncation: float) -> bool:
    """Whether smoothing by matrices is possible, and faster than by depthwise convolutions."""
    known = [size for size in shape if size is not None]
    if len(known) < len(shape):
        return False
    return max(known) <= _MATRIX_WIDTHS * (2 * truncation_radius(sigma, truncation) + 1)


@lru_cache(maxsize=256)
def same_grid_matrices(
    shape: tuple[int, int], sigma: float, margin: int, boundary: str, truncation: float
) -> tuple[np.ndarray, np.ndarray]:
    """Matrices that smooth an image on its pixels, and `margin` pixels beyond its edges."""
    rows, columns = (
        sampling_matrix(Grid(size), Grid(size).padded(margin), sigma, boundary, truncation)
        for size in shape
    )
    return rows, columns
