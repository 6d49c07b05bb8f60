"""Images as users give them to a detector: arrays, lists of arrays, pipelines."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_LEAST_SIDE = 3


def check_kind(images: Any) -> Any:
    """Raise for what is neither numbers nor a pipeline."""
    if hasattr(images, "to_tensor"):
        raise ValueError(
            "Images of several sizes must be a list of arrays. "
            f"Received: a ragged tensor of shape {tuple(images.shape)}"
        )
    is_text = isinstance(images, str | bytes)
    if is_text or (isinstance(images, np.ndarray) and images.dtype.kind in "OSU"):
        shown = images if is_text else f"an array of dtype {images.dtype}"
        raise ValueError(
            f"Images must be arrays of numbers, a list of them or a pipeline. Received: {shown!r}"
        )
    return images


def check_size(images: Any) -> Any:
    """Raise for arrays of images that are too small."""
    shape = tuple(getattr(images, "shape", ()))
    if any(side is not None and side < _LEAST_SIDE for side in shape[1:3]):
        raise ValueError(
            f"Images must be at least {_LEAST_SIDE}x{_LEAST_SIDE} pixels. Received: shape {shape}"
        )
    return images


def by_shape(images: Sequence[Any]) -> dict[tuple[int, ...], np.ndarray]:
    """The images of a list, stacked with those of the same shape, by their places in the list."""
    places: dict[tuple[int, ...], list[int]] = {}
    arrays = [np.asarray(check_kind(image)) for image in images]
    for k, array in enumerate(arrays):
        check_kind(array)
        places.setdefault(array.shape, []).append(k)
    if not arrays:
        raise ValueError(f"There must be at least one image. Received: {images!r}")
    return {tuple(mine): np.stack([arrays[k] for k in mine]) for mine in places.values()}


def as_batch(images: Any) -> Any:
    """A list of images of one size as an array; anything else as it is."""
    if not isinstance(images, list | tuple):
        return images
    groups = list(by_shape(images).values())
    if len(groups) > 1:
        raise ValueError(
            "Images to train and evaluate on must be of one size in a batch: pad them, or give a "
            f"generator of batches. Received: shapes {[group.shape[1:] for group in groups]}"
        )
    return groups[0]
