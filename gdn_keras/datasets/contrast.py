"""The contrast of MNIST Large Scale: `(2 / pi) arctan(0.02 (I - 128))`, each image's peak at 255.

The formula is written twice: to be read, for arrays and tensors of any kind, and to be fast, for
batches of NumPy images in place.
"""

import math
from typing import Any

import numpy as np

GAIN, MIDPOINT, PEAK = 0.02, 128.0, 255.0
BACKGROUND = 2 / math.pi * math.atan(-GAIN * MIDPOINT)  # what a pixel of 0 becomes

_ARCTAN = (1.2732257, -0.423838356, 0.247804114, -0.146975938, 0.0538860514)


def arctan_contrast(images: Any, peak: Any, xp: Any) -> Any:
    """Float images `[n, h, w, channels]` stretched; black ones stay background.

    Args:
        images: Array or tensor.
        peak: Largest value of each, `[n, 1, 1, 1]`.
        xp: Module with the names of NumPy for it, such as `numpy` or `keras.ops`.
    """
    peak = xp.where(peak > 0, peak, xp.ones_like(peak))
    return (2 / math.pi) * xp.arctan(GAIN * (images * (PEAK / peak) - MIDPOINT))


def stretch_in_place(images: np.ndarray, *scratch: np.ndarray) -> None:
    """`arctan_contrast` for float32 images `[n, channels, h, w]`, within two arrays of scratch."""
    peak = images.max(axis=(1, 2, 3), keepdims=True, initial=0)
    images *= np.divide(GAIN * PEAK, peak, out=np.zeros_like(peak), where=peak > 0)
    images -= np.float32(GAIN * MIDPOINT)
    _arctan(images, *scratch)


def _arctan(z: np.ndarray, t: np.ndarray, square: np.ndarray) -> None:
    """`z[:] = (2 / pi) * np.arctan(z)` for |z| < 2.86, to 1e-6, twice as fast as `np.arctan`.

    By arctan(z) = 2 arctan(t), t = z / (1 + sqrt(1 + z²)), and a least-squares polynomial in t.
    """
    np.multiply(z, z, out=t)
    t += 1
    np.sqrt(t, out=t)
    t += 1
    np.divide(z, t, out=t)
    np.multiply(t, t, out=square)
    *lower, highest = np.array(_ARCTAN, "float32")
    np.multiply(square, highest, out=z)
    for coefficient in reversed(lower[1:]):
        z += coefficient
        z *= square
    z += lower[0]
    z *= t
