"""Random changes of training images, as Keras layers. All of them keep the sizes of objects."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from gdn_keras.checks import check_factor, check_non_negative, check_positive, check_share, require

# About as much as one hand differs from another.
ROTATION = math.radians(12)
SHEAR = 0.15

_SHARPEST = 0.3  # pixels: a Gaussian that changes next to nothing, but leaves no gaps in a line


class _Fixed(keras.random.SeedGenerator):
    """A generator of one seed: functions of `keras.random` take numbers or generators only."""

    def __init__(self, seed: Any, dtype: str):
        self.value = ops.cast(seed, dtype)

    def next(self, ordered: bool = True) -> Any:
        return self.value


class RandomChange(keras.layers.Layer):
    """Base of the layers that change images at random in training, and otherwise pass them on.

    A subclass sets `numbers`, how many random numbers it wants for each image, and has a method
    `change(images, draws)`, where `draws` `[n, numbers]` are uniform between -1 and 1.

    A `seed` of the layer fixes what successive calls draw. That of a call, a pair of integers or a
    tensor of them, fixes what this call draws, so that a training can be resumed.
    """

    numbers = 0

    def __init__(self, seed: int | None = None, **kwargs: Any):
        # Half precision is too coarse for coordinates.
        super().__init__(**{"dtype": "float32", **kwargs})
        self.seed = seed
        self.generator = keras.random.SeedGenerator(seed)

    def call(self, images: Any, seed: Any = None, training: bool = True) -> Any:
        images = ops.cast(images, self.compute_dtype)
        if not training:
            return images
        source = self.generator if seed is None else _Fixed(seed, self.generator.state.dtype)
        shape = (ops.shape(images)[0], self.numbers)
        draws = keras.random.uniform(shape, -1.0, 1.0, dtype=self.compute_dtype, seed=source)
        return self.change(images, draws)

    def change(self, images: Any, draws: Any) -> Any:
        raise NotImplementedError  # each augmentation has its own

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple(input_shape)


@keras.saving.register_keras_serializable(package="gdn_keras")
class RandomAffine(RandomChange):
    """Rotates, shears and shifts; areas, and so scales, are kept.

    Beyond its frame, an image goes on as its edge.

    Example:

    >>> augment = keras.Sequential([RandomAffine(shift=2), RandomLight()])
    >>> augment(np.zeros((5, 40, 40, 3), "uint8"), training=True).shape
    TensorShape([5, 40, 40, 3])

    Args:
        rotation: Largest angle, in radians.
        shear: Largest shear, along the rows.
        shift: Largest displacement along each axis, in pixels.
        **kwargs: `seed`, and those of `keras.layers.Layer`.
    """

    numbers = 4

    def __init__(
        self, rotation: float = ROTATION, shear: float = SHEAR, shift: float = 1.0, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.rotation = check_non_negative("rotation", rotation)
        self.shear = check_non_negative("shear", shear)
        self.shift = check_non_negative("shift", shift)

    def change(self, images: Any, draws: Any) -> Any:
        limits = [self.rotation, self.shear, self.shift, self.shift]
        angle, slant, dx, dy = ops.unstack(draws * ops.array(limits, draws.dtype), 4, axis=1)
        cos, sin = ops.cos(angle), ops.sin(angle)
        # The linear part is a rotation after a shear, [[cos, a], [sin, b]], of determinant one.
        a, b = slant * cos - sin, slant * sin + cos
        cy, cx = (_middle(length, draws.dtype) for length in ops.shape(images)[1:3])
        rows = [cos, a, cx + dx - cos * cx - a * cy, sin, b, cy + dy - sin * cx - b * cy]
        transform = ops.stack([*rows, ops.zeros_like(cos), ops.zeros_like(cos)], axis=1)
        options = {"fill_mode": "nearest", "data_format": "channels_last"}
        return ops.image.affine_transform(images, transform, **options)


@keras.saving.register_keras_serializable(package="gdn_keras")
class RandomFrame(RandomChange):
    """Cuts some of the images to smaller frames about their centers.

    An image loses what lies outside its frame; the frame's edge pixels are continued instead.
    Large objects reach the edge of an image and beyond. A network that has never seen this in
    training is not prepared for it at larger sizes.

    Args:
        smallest, largest: Least and greatest height and width of a frame, in pixels.
        share: Share of the images that get one.
        **kwargs: `seed`, and those of `keras.layers.Layer`.
    """

    numbers = 2

    def __init__(self, smallest: float, largest: float, share: float = 0.5, **kwargs: Any):
        super().__init__(**kwargs)
        self.smallest = check_positive("smallest", smallest)
        self.largest = check_positive("largest", largest)
        text = f"be at least `smallest`, {smallest}"
        require(self.largest >= self.smallest, "largest", text, largest)
        self.share = check_share("share", share)

    def change(self, images: Any, draws: Any) -> Any:
        place, chance = ops.unstack((draws + 1) / 2, 2, axis=1)
        half = (self.smallest + (self.largest - self.smallest) * place - 1) / 2
        kept = []
        for length in ops.shape(images)[1:3]:
            center = _middle(length, draws.dtype)
            limit = ops.where(chance < self.share, ops.minimum(half, center), center)[:, None]
            offset = ops.cast(ops.arange(length), draws.dtype) - center
            offset = ops.maximum(ops.minimum(offset, limit), -limit)
            kept.append(ops.cast(ops.round(offset + center), "int32"))
        count, height, width, channels = ops.shape(images)
        rows = ops.arange(count)[:, None, None] * height + kept[0][:, :, None]
        pixels = ops.reshape(images, (-1, channels))
        return ops.take(pixels, rows * width + kept[1][:, None, :], axis=0)


@keras.saving.register_keras_serializable(package="gdn_keras")
class RandomLight(RandomChange):
    """Changes what photographs vary in: shade, color cast, contrast and brightness.

    A shadow with a soft edge falls on one side of a random line. Factors are drawn evenly on a
    logarithmic scale; contrast leaves the mean unchanged. Pixels saturate, as those of a sensor do.

    Args:
        brightness: Largest change of all pixels, as a share of the range.
        contrast: Largest factor, at least 1; the smallest is one over it.
        color: Largest factor of one color channel, at least 1. Grey images have no cast.
        shade: Largest share of the light that a shadow takes.
        value_range: Least and greatest value of a pixel; `None` for images of no fixed range, where
            0 is dark, `brightness` is in units of 1, and nothing saturates.
        **kwargs: `seed`, and those of `keras.layers.Layer`.
    """

    numbers = 7

    def __init__(
        self,
        brightness: float = 0.15,
        contrast: float = 2.0,
        color: float = 1.25,
        shade: float = 0.5,
        value_range: Sequence[float] | None = (0.0, 255.0),
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.brightness = check_non_negative("brightness", brightness)
        self.contrast = check_factor("contrast", contrast)
        self.color = check_factor("color", color)
        self.shade = check_share("shade", shade)
        self.value_range = value_range

    def change(self, images: Any, draws: Any) -> Any:
        draws = ops.reshape(draws, (-1, self.numbers, 1, 1, 1))
        hue, cast, angle, place, depth, contrast, brightness = ops.unstack(draws, 7, axis=1)
        low, high = self.value_range or (0.0, 1.0)
        light = images - low
        if images.shape[3] > 1:
            channels = ops.arange(images.shape[3], dtype=draws.dtype)
            phase = math.pi * (hue + 2 / images.shape[3] * channels)
            light = light * ops.exp(math.log(self.color) * cast * ops.cos(phase))
        light = light * (1 - self.shade * (depth + 1) / 2 * _shadow(images, angle, place))
        mean = ops.mean(light, axis=(1, 2, 3), keepdims=True)
        light = mean + ops.exp(math.log(self.contrast) * contrast) * (light - mean)
        images = low + light + self.brightness * (high - low) * brightness
        return images if self.value_range is None else ops.clip(images, low, high)


@keras.saving.register_keras_serializable(package="gdn_keras")
class RandomBlur(RandomChange):
    """Blurs like a lens out of focus, and like a moving camera: half of the images each.

    Args:
        focus: Largest standard deviation of a Gaussian, in pixels.
        motion: Largest length of a straight path, in pixels.
        **kwargs: `seed`, and those of `keras.layers.Layer`.
    """

    numbers = 3

    def __init__(self, focus: float = 1.0, motion: float = 4.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.focus = check_non_negative("focus", focus)
        self.motion = check_non_negative("motion", motion)

    def change(self, images: Any, draws: Any) -> Any:
        sigma, length, angle = ops.unstack(draws[:, :, None, None], 3, axis=1)
        reach = math.ceil(self.motion / 2 + 3 * max(self.focus, _SHARPEST))
        x = ops.arange(-reach, reach + 1, dtype=draws.dtype)
        cos, sin = ops.cos(math.pi * angle), ops.sin(math.pi * angle)
        along, across = ops.abs(cos * x + sin * x[:, None]), cos * x[:, None] - sin * x
        # A Gaussian of the distance from the path.
        beyond = ops.relu(along - ops.relu(length) * self.motion / 2)
        sigma = ops.maximum(sigma * self.focus, _SHARPEST)
        kernels = ops.exp(-(beyond**2 + across**2) / (2 * sigma**2))
        kernels = kernels / ops.sum(kernels, axis=(1, 2), keepdims=True)
        return _filtered(images, kernels, reach)


def _middle(length: Any, dtype: str) -> Any:
    """Coordinate of the middle of an axis, whose length a graph may not know."""
    return (ops.cast(length, dtype) - 1) / 2


def _shadow(images: Any, angle: Any, place: Any) -> Any:
    """Where a shadow falls, from 0 to 1: one side of a line, its edge a tenth of the image wide."""
    y, x = (
        (ops.cast(ops.arange(length), images.dtype) - _middle(length, images.dtype))
        * (2 / ops.cast(length, images.dtype))
        for length in ops.shape(images)[1:3]
    )
    x, y = x[:, None], y[:, None, None]
    side = x * ops.cos(math.pi * angle) + y * ops.sin(math.pi * angle)
    return ops.sigmoid(20 * (side - place))


def _filtered(images: Any, kernels: Any, reach: int) -> Any:
    """Each image `[n, h, w, c]` convolved with its own kernel `[n, k, k]`, mirrored beyond."""
    _, height, width, channels = ops.shape(images)
    images = ops.pad(images, [(0, 0), (reach, reach), (reach, reach), (0, 0)], "symmetric")
    # All images side by side, as the channels of one.
    images = ops.transpose(images, (1, 2, 0, 3))
    images = ops.reshape(images, (1, height + 2 * reach, width + 2 * reach, -1))
    kernels = ops.repeat(ops.transpose(kernels, (1, 2, 0)), channels, axis=2)[..., None]
    images = ops.depthwise_conv(images, kernels, data_format="channels_last")
    return ops.transpose(ops.reshape(images, (height, width, -1, channels)), (2, 0, 1, 3))
