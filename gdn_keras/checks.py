"""Checks of user values, each with an error that names the argument and echoes the value."""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

BOUNDARIES = ("symmetric", "edge", "constant")
MAX_ORDER = 3
MAX_SURROUND = 2.0

T = TypeVar("T")


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def check_positive(name: str, value: float) -> float:
    """A finite number above zero."""
    if not _is_real(value) or value <= 0:
        raise ValueError(f"`{name}` must be a positive, finite number. Received: {name}={value!r}")
    return float(value)


def check_non_negative(name: str, value: float) -> float:
    """A finite number, zero included."""
    if not _is_real(value) or value < 0:
        raise ValueError(f"`{name}` must be a finite number >= 0. Received: {name}={value!r}")
    return float(value)


def check_share(name: str, value: float) -> float:
    """A number from 0 to 1."""
    if check_non_negative(name, value) > 1:
        raise ValueError(f"`{name}` must lie in [0, 1]. Received: {name}={value!r}")
    return float(value)


def check_factor(name: str, value: float) -> float:
    """The largest factor of a random change, whose smallest is one over it."""
    if check_positive(name, value) < 1:
        raise ValueError(f"`{name}` must be at least 1. Received: {name}={value!r}")
    return float(value)


def check_truncation(value: float) -> float:
    """A bound on a cut-off mass."""
    if not _is_real(value) or not 0 < value < 1:
        raise ValueError(
            f"`truncation` must lie strictly between 0 and 1. Received: truncation={value!r}"
        )
    return float(value)


def check_integer(name: str, value: Any, minimum: int = 1) -> int:
    """An integer of at least `minimum`, of Python or NumPy."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"`{name}` must be an integer >= {minimum}. Received: {name}={value!r}")
    return int(value)


def check_choice(name: str, value: T, choices: Sequence[T]) -> T:
    """One of a few names."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {listed}. Received: {name}={value!r}")
    return value


def check_boundary(value: str) -> str:
    """The name of a boundary rule."""
    return check_choice("boundary", value, BOUNDARIES)


def check_order(value: int) -> int:
    """The highest order of differentiation of a jet."""
    if check_integer("order", value) > MAX_ORDER:
        raise ValueError(f"`order` must be 1, 2 or 3. Received: order={value!r}")
    return int(value)


def _check_each(name: str, value: Any, check: Callable[[str, Any], T], what: str) -> tuple[T, ...]:
    """A sequence, each of its values checked."""
    try:
        return tuple(check(name, item) for item in value)
    except TypeError:
        raise ValueError(
            f"`{name}` must be a sequence of {what}. Received: {name}={value!r}"
        ) from None


def check_scales(value: Sequence[float], name: str = "scales") -> tuple[float, ...]:
    """Scale values sigma_0 of scale channels: positive and strictly increasing."""
    scales = _check_each(name, value, check_positive, "numbers")
    if not scales or any(b <= a for a, b in itertools.pairwise(scales)):
        raise ValueError(
            f"`{name}` must hold at least one value, in strictly increasing order. "
            f"Received: {name}={value!r}"
        )
    return scales


def check_surround(value: float) -> float:
    """A share of an image's height and width, on each side."""
    if check_non_negative("surround", value) > MAX_SURROUND:
        raise ValueError(
            f"`surround` must be a share of the image such as 0.5, at most {MAX_SURROUND:g}. "
            f"Received: surround={value!r}"
        )
    return float(value)


def check_sizes(name: str, value: Sequence[float], minimum: int = 1) -> None:
    """Sizes of objects: positive, at least `minimum` of them, in any order."""
    if len(_check_each(name, value, check_positive, "numbers")) < minimum:
        raise ValueError(f"`{name}` must hold at least one size. Received: {name}={value!r}")


def check_widths(value: Sequence[int]) -> tuple[int, ...]:
    """Numbers of feature channels, one for each layer."""
    widths = _check_each("widths", value, check_integer, "integers")
    if not widths:
        raise ValueError(f"`widths` must name at least one layer. Received: widths={value!r}")
    return widths


def check_input_shape(input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
    """Height and width of at least 3, or `None`, and a number of channels."""
    shape = tuple(input_shape) if isinstance(input_shape, Iterable) else ()
    spatial_ok = all(n is None or (isinstance(n, int) and n >= 3) for n in shape[:2])
    if len(shape) != 3 or not spatial_ok or not isinstance(shape[2], int) or shape[2] < 1:
        raise ValueError(
            "`input_shape` must be (height, width, channels), with at least 3x3 pixels. "
            f"Received: input_shape={input_shape!r}"
        )
    return shape


def check_images(images: Any, channels: int, pixels: bool = False) -> Any:
    """A batch of at least one image, or what has no shape, such as a pipeline, of some length.

    Args:
        images: What a user passes to a model's `fit`, `evaluate` or `predict`.
        channels: Number of colour channels that the model takes.
        pixels: Whether the model holds its preprocessor, and so takes pixels of 0 to 255.

    Returns:
        The images, with a last axis where grey ones have none.
    """
    shape = getattr(images, "shape", None)
    if shape is None:
        with contextlib.suppress(TypeError):  # generators, and pipelines that do not know
            if len(images) == 0:
                raise ValueError(f"There must be at least one image. Received: {images!r}")
        return images
    shape = tuple(shape)
    grey = channels == 1 and len(shape) == 3
    if not grey and (len(shape) != 4 or shape[3] != channels):
        raise ValueError(
            f"Images must have shape [batch, height, width, channels], with {channels} as the "
            f"last. Received: shape {shape}"
        )
    if not shape[0]:
        raise ValueError(f"There must be at least one image. Received: shape {shape}")
    if isinstance(images, np.ndarray) or hasattr(images, "numpy"):
        _check_values(np.asarray(images), pixels)
    return images[..., None] if grey else images


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
