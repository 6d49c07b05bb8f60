"""Pictures of MNIST Large Scale, as in the papers."""

import os
from collections.abc import Sequence

import numpy as np

from gdn_keras.datasets.transform import TEST_SIZES, rescale_images
from gdn_keras.reporting import import_pyplot


def draw_sizes(
    digits: np.ndarray,
    sizes: Sequence[float] = TEST_SIZES,
    *,
    path: str | os.PathLike,
    columns: int | None = None,
) -> None:
    """Draws each digit at each size and saves the picture.

    Args:
        digits: Images `[n, 28, 28]`, a row (or, with `columns`, a block of rows) for each.
        sizes: The sizes, from left to right.
        path: File to write; its ending tells the format.
        columns: Sizes in a row before the next row begins; all if `None`.
    """
    plt = import_pyplot()
    columns = columns or len(sizes)
    rows = -(-len(sizes) // columns)
    shape = len(digits) * rows, columns
    height = shape[0] * (1.16 if rows > 1 else 1) + 0.16
    figure, axes = plt.subplots(
        *shape, figsize=(shape[1], height), squeeze=False, layout="constrained"
    )
    for axis in axes.flat:
        axis.set_axis_off()
    for k, size in enumerate(sizes):
        images = rescale_images(digits, size)
        for n, image in enumerate(images):
            axis = axes[n * rows + k // columns, k % columns]
            axis.imshow(image, cmap="gray", vmin=0, vmax=255)
            if n == 0 or rows > 1:
                axis.set_title(f"{size:.3g}", fontsize=8, pad=2)
    figure.get_layout_engine().set(w_pad=0.01, h_pad=0.01, hspace=0.02, wspace=0.02)
    figure.savefig(path, dpi=200)
    plt.close(figure)
