"""Random changes of training images that leave the size of objects as it is."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gdn_keras.checks import check_non_negative, check_positive

if TYPE_CHECKING:
    import tensorflow as tf

# About as much as one hand differs from another.
ROTATION = math.radians(12)
SHEAR = 0.15
SHIFT = 1.0

# Frames from half of MNIST's own, which cuts through every digit, to MNIST's own, which cuts none.
FRAMES = (14.0, 28.0)


def random_affine(
    size: float, rotation: float = ROTATION, shear: float = SHEAR, shift: float = SHIFT
) -> Callable:
    """Rotations, shears and shifts for `training_pipeline`; areas, and so scales, are kept.

    A network that generalises over scale must not be shown other scales; other hands it may see.

    Args:
        size: Size of the digits in the images, by which `shift` is multiplied.
        rotation: Largest angle, in radians.
        shear: Largest shear, along the rows.
        shift: Largest displacement along each axis, in pixels of the original digits.

    Returns:
        Function `(images, seed) -> images` on float batches `[n, h, w, channels]`; `seed` is a
        pair of integers, and equal seeds give equal results. Beyond its frame, an image goes on
        as its edge.
    """
    import tensorflow as tf

    check_positive("size", size)
    for name, value in (("rotation", rotation), ("shear", shear), ("shift", shift)):
        check_non_negative(name, value)

    def apply(images: "tf.Tensor", seed: "tf.Tensor") -> "tf.Tensor":
        count = tf.shape(images)[0]
        limits = tf.constant([rotation, shear, shift * size, shift * size], "float32")
        draws = tf.random.stateless_uniform(tf.stack([count, 4]), seed, -1.0, 1.0) * limits
        angle, slant, dx, dy = tf.unstack(draws, axis=1)
        cos, sin = tf.cos(angle), tf.sin(angle)
        # The linear part is a rotation after a shear, [[cos, a], [sin, b]], of determinant one.
        a, b = slant * cos - sin, slant * sin + cos
        cy, cx = ((length - 1) / 2 for length in _known_size(images))
        zero = tf.zeros_like(cos)
        transforms = [
            *(cos, a, cx + dx - cos * cx - a * cy),
            *(sin, b, cy + dy - sin * cx - b * cy),
            *(zero, zero),
        ]
        moved = tf.raw_ops.ImageProjectiveTransformV3(
            images=images,
            transforms=tf.stack(transforms, axis=1),
            output_shape=tf.shape(images)[1:3],
            interpolation="BILINEAR",
            fill_mode="NEAREST",
            fill_value=0.0,
        )
        return tf.ensure_shape(moved, images.shape)

    return apply


def random_frame(size: float, frames: tuple[float, float] = FRAMES, share: float = 0.5) -> Callable:
    """Smaller frames about the centre for `training_pipeline`, for some of the images.

    What lies outside of its frame an image loses; the frame's edge pixels are continued instead.
    Large objects reach the edge of an image and beyond, and a network that has seen none that does
    is not prepared for it at larger sizes.

    Args:
        size: Size of the digits in the images, by which `frames` are multiplied.
        frames: Smallest and largest height and width of a frame, in pixels of the original digits.
        share: Share of the images that get one.

    Returns:
        Function `(images, seed) -> images`, as from `random_affine`; height and width of the
        images must be known.
    """
    import tensorflow as tf

    check_positive("size", size)
    try:
        low, high = (check_positive("frames", frame) for frame in frames)
    except (TypeError, ValueError):
        low, high = 1, 0
    if low > high:
        raise ValueError(
            f"`frames` must be two sizes in increasing order. Received: frames={frames!r}"
        )
    if check_non_negative("share", share) > 1:
        raise ValueError(f"`share` must lie in [0, 1]. Received: share={share!r}")

    def apply(images: "tf.Tensor", seed: "tf.Tensor") -> "tf.Tensor":
        draws = tf.random.stateless_uniform(tf.stack([2, tf.shape(images)[0], 1]), seed)
        half = (size * (low + (high - low) * draws[0]) - 1) / 2
        for length in _known_size(images):
            center = (length - 1) / 2
            limit = tf.where(draws[1] < share, tf.minimum(half, center), center)
            offset = tf.range(length, dtype="float32") - center
            index = tf.round(tf.maximum(tf.minimum(offset, limit), -limit) + center)
            images = tf.gather(images, tf.cast(index, "int32"), axis=1, batch_dims=1)
            images = tf.transpose(images, (0, 2, 1, 3))
        return images

    return apply


def random_contrast(limit: float) -> Callable:
    """More or less contrast for `training_pipeline`: photographs are taken in sun and in rain.

    Args:
        limit: Largest factor, at least 1; the smallest is one over it. Each image's factor is
            between them, evenly on a logarithmic scale, and leaves its mean as it is.

    Returns:
        Function `(images, seed) -> images`, as from `random_affine`.
    """
    import tensorflow as tf

    if check_positive("limit", limit) < 1:
        raise ValueError(f"`limit` must be at least 1. Received: limit={limit!r}")

    def apply(images: "tf.Tensor", seed: "tf.Tensor") -> "tf.Tensor":
        shape = tf.stack([tf.shape(images)[0], 1, 1, 1])
        factor = tf.exp(math.log(limit) * tf.random.stateless_uniform(shape, seed, -1.0, 1.0))
        mean = tf.reduce_mean(images, axis=(1, 2, 3), keepdims=True)
        return mean + factor * (images - mean)

    return apply


def _known_size(images: Any) -> tuple[int, int]:
    """Height and width of a batch."""
    height, width = images.shape[1:3]
    if height is None or width is None:
        raise ValueError(
            f"`images` must have a known height and width. Received: shape {images.shape}"
        )
    return height, width
