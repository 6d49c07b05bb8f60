"""Checks of user values, each with an error that names the argument and echoes the value."""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy as np

BOUNDARIES = ("symmetric", "edge", "constant")
MAX_ORDER = 3
MAX_SURROUND = 2.0

T = TypeVar("T")


def require(condition: Any, name: str, must: str, value: Any) -> None:
    """Raise unless a condition holds: "`name` must …. Received: name=value"."""
    if not condition:
        raise ValueError(f"`{name}` must {must}. Received: {name}={value!r}")


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def check_positive(name: str, value: float) -> float:
    """A finite number above zero."""
    require(_is_real(value) and value > 0, name, "be a positive, finite number", value)
    return float(value)


def check_non_negative(name: str, value: float) -> float:
    """A finite number, zero included."""
    require(_is_real(value) and value >= 0, name, "be a finite number >= 0", value)
    return float(value)


def check_share(name: str, value: float) -> float:
    """A number from 0 to 1."""
    require(_is_real(value) and 0 <= value <= 1, name, "lie in [0, 1]", value)
    return float(value)


def check_factor(name: str, value: float) -> float:
    """The largest factor of a random change, whose smallest is one over it."""
    require(check_positive(name, value) >= 1, name, "be at least 1", value)
    return float(value)


def check_truncation(value: float) -> float:
    """A bound on a cut-off mass."""
    require(_is_real(value) and 0 < value < 1, "truncation", "lie strictly between 0 and 1", value)
    return float(value)


def check_integer(name: str, value: Any, minimum: int = 1) -> int:
    """An integer of at least `minimum`, of Python or NumPy."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    require(is_integer and value >= minimum, name, f"be an integer >= {minimum}", value)
    return int(value)


def check_choice(name: str, value: T, choices: Sequence[T]) -> T:
    """One of a few names."""
    require(value in choices, name, f"be one of {', '.join(map(repr, choices))}", value)
    return value


def check_boundary(value: str) -> str:
    """The name of a boundary rule."""
    return check_choice("boundary", value, BOUNDARIES)


def check_order(value: int) -> int:
    """The highest order of differentiation of a jet."""
    require(check_integer("order", value) <= MAX_ORDER, "order", "be 1, 2 or 3", value)
    return int(value)


def _check_each(name: str, value: Any, check: Callable[[str, Any], T], what: str) -> tuple[T, ...]:
    """A sequence, each of its values checked."""
    require(np.iterable(value), name, f"be a sequence of {what}", value)
    return tuple(check(name, item) for item in value)


def check_scales(value: Sequence[float], name: str = "scales") -> tuple[float, ...]:
    """Scale values sigma_0 of scale channels: positive and strictly increasing."""
    scales = _check_each(name, value, check_positive, "numbers")
    increasing = all(a < b for a, b in itertools.pairwise(scales))
    text = "hold at least one value, in strictly increasing order"
    require(scales and increasing, name, text, value)
    return scales


def check_surround(value: float) -> float:
    """A share of an image's height and width, on each side."""
    text = f"be a share of the image such as 0.5, at most {MAX_SURROUND:g}"
    require(check_non_negative("surround", value) <= MAX_SURROUND, "surround", text, value)
    return float(value)


def check_sizes(name: str, value: Sequence[float], minimum: int = 1) -> None:
    """Sizes of objects: positive, at least `minimum` of them, in any order."""
    sizes = _check_each(name, value, check_positive, "numbers")
    require(len(sizes) >= minimum, name, "hold at least one size", value)


def check_widths(value: Sequence[int]) -> tuple[int, ...]:
    """Numbers of feature channels, one for each layer."""
    widths = _check_each("widths", value, check_integer, "integers")
    require(widths, "widths", "name at least one layer", value)
    return widths


def check_input_shape(input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
    """Height and width of at least 3, or `None`, and a number of channels."""
    shape = tuple(input_shape) if isinstance(input_shape, Iterable) else ()
    fits = all(n is None or (isinstance(n, int) and n >= 3) for n in shape[:2])
    fits = fits and len(shape) == 3 and isinstance(shape[2], int) and shape[2] >= 1
    text = "be (height, width, channels), with at least 3x3 pixels"
    require(fits, "input_shape", text, input_shape)
    return shape


def check_image_shape(
    name: str, input_shape: Any, minimum: int = 1, channels: int | None = None
) -> None:
    """Raise unless a layer can take images of this shape, and of the channels it was built for."""
    # A graph of TensorFlow that was called with tensors of several ranks knows none of them.
    shape = tuple(input_shape) if getattr(input_shape, "rank", 4) is not None else ()
    fits = len(shape) == 4 and shape[3] is not None and channels in (None, shape[3])
    if not fits or any(size is not None and size < minimum for size in shape[1:3]):
        built = "" if channels is None else f"was built for images with {channels} feature channels"
        raise ValueError(
            f"`{name}` {built or 'expects a known number of feature channels'}, and expects images "
            f"of rank 4, of at least {minimum}x{minimum} pixels, with the feature channels last: "
            "[batch, height, width, channels]. "
            f"Received: input_shape={shape or None}"
        )


def check_images(images: Any, channels: int, pixels: bool = False) -> Any:
    """A batch of at least one image, or what has no shape, such as a pipeline, of some length.

    `pixels` says that the model holds its preprocessor, and so takes pixels of 0 to 255. Grey
    images come back with a last axis.
    """
    if type(images) in (list, tuple) and [np.ndim(one) for one in images] == [4]:
        [images] = images  # as functional models take their inputs
    shape = getattr(check_numbers(images), "shape", None)
    if shape is None:
        with contextlib.suppress(TypeError):  # generators, and pipelines that do not know
            if len(images) == 0:
                raise ValueError(f"There must be at least one image. Received: {images!r}")
        return images
    shape = tuple(shape)
    grey = channels == 1 and len(shape) == 3
    if not grey and (len(shape) != 4 or shape[3] != channels):
        text = f"Images must have shape [batch, height, width, channels], with {channels} as the"
        raise ValueError(f"{text} last. Received: shape {shape}")
    if not shape[0]:
        raise ValueError(f"There must be at least one image. Received: shape {shape}")
    if isinstance(images, np.ndarray) or hasattr(images, "numpy"):
        _check_values(np.asarray(images), pixels)
    return images[..., None] if grey else images


def check_numbers(images: Any) -> Any:
    """What may be images: one array or tensor of numbers, or a pipeline."""
    dtype = str(getattr(getattr(images, "dtype", None), "name", ""))
    is_wrong = hasattr(images, "to_tensor") or dtype.startswith(("str", "by", "obj", "complex"))
    if is_wrong or isinstance(images, str | bytes | dict | list | tuple | None):
        text = "Images must be one array of real numbers, or a pipeline."
        raise ValueError(f"{text} Received: {type(images).__name__} {dtype}".rstrip())
    return images


def _check_values(images: np.ndarray, pixels: bool) -> None:
    """Raise where an array holds NaN, or cannot be the pixels that it should be."""
    kind, low, high = images.dtype.kind, 0, 255
    if images.size and images.dtype != np.uint8:
        low, high = images.min(), images.max()
    if kind == "f" and not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"Images must be finite. Received: values from {low} to {high}")
    if pixels and (low < 0 or high >= 256 or (kind not in "iu" and high <= 1)):
        raise ValueError(
            "Images must be pixels of 0 to 255, integers or floats: the model holds its "
            f"preprocessor. Received: {images.dtype} values from {low:g} to {high:g}"
        )
