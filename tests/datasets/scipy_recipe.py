"""The recipe written with SciPy's own two-dimensional functions, one image at a time."""

import numpy as np
from scipy import ndimage


def reference_planes(image, size, output_shape, smoothing=7 / 8, mode="constant"):
    """Steps 1 and 2, on a plane that is larger than the output by the reach of the smoothing."""
    fine = 1 if size >= 1 or smoothing == 0 else int(np.ceil(2 / size))
    sigma = smoothing * size * fine
    margin = int(4 * sigma + 0.5)
    axes, frames = [], []
    for length, output in zip(image.shape, output_shape, strict=True):
        steps = np.arange(-margin, (output - 1) * fine + margin + 1) / fine
        from_center = (steps - (output - 1) / 2) / size
        axes.append(from_center + (length - 1) / 2)
        beyond = np.abs(from_center) - length / 2
        frames.append(np.where(beyond == 0, 0.5, beyond < 0))
    positions = np.stack(np.meshgrid(*axes, indexing="ij"))
    scipy_mode = {"constant": "reflect", "symmetric": "reflect", "edge": "nearest"}[mode]
    plane = ndimage.map_coordinates(image.astype(float), positions, order=3, mode=scipy_mode)
    if mode == "constant":
        plane *= np.outer(*frames)
    if sigma > 0:
        plane = ndimage.gaussian_filter(plane, sigma)
    inner = slice(margin, -margin or None)
    return plane[inner, inner][::fine, ::fine]


def reference_digit(image, size, output_shape=(112, 112)):
    """The recipe of MNIST Large Scale up to its contrast."""
    plane = reference_planes(image, size, output_shape)
    return np.maximum(plane, 0) * (255 / plane.max())
