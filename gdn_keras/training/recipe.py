"""Recipes: dataclasses whose fields carry their own flags, checks and documentation."""

import argparse
import dataclasses
import json
import textwrap
import typing
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from gdn_keras.checks import (
    check_choice,
    check_integer,
    check_non_negative,
    check_positive,
    check_scales,
    check_surround,
    check_widths,
)
from gdn_keras.layers.scale_pooling import POOLINGS
from gdn_keras.models import PAPER_SCALES
from gdn_keras.models.gaussian_derivative_network import READOUTS
from gdn_keras.presets import PRESETS
from gdn_keras.scale_space import DEFAULT_CONE, SAMPLINGS

LOSSES = {
    "binary": keras.losses.BinaryCrossentropy,
    "softmax": keras.losses.CategoricalCrossentropy,
}
PRECISIONS = ("float32", "float16", "bfloat16")
NETWORKS = tuple(name for name, entry in PRESETS.items() if "weights" not in entry)
_FINAL_RATE = 1 / 200  # of the first learning rate


def channels_between(name: str, values: Sequence[float]) -> tuple[float, ...]:
    """sigma_0 of scale channels from LOW, HIGH and their number."""
    low, high, count = values
    if not 0 < low <= high or count != int(count) or count < 1:
        raise ValueError(
            f"`{name}` must be LOW HIGH N, with 0 < LOW <= HIGH and a whole number N of channels. "
            f"Received: {low:g} {high:g} {count:g}"
        )
    return tuple(np.geomspace(low, high, int(count)).tolist())


# What fields of these kinds have in common, for `setting`.
COUNT = {"group": "training", "type": int, "metavar": "N"}
RATE = {"group": "training", "type": float, "metavar": "RATE"}
WIDTHS = {"check": lambda _, v: check_widths(v), "type": int, "nargs": "+", "metavar": "N"}
SHARE = {"type": float, "metavar": "SHARE"}
CHANNELS = {
    "check": lambda name, value: check_scales(value, name),
    "parse": channels_between,
    "type": float,
    "nargs": 3,
    "metavar": ("LOW", "HIGH", "N"),
}


def setting(
    default: Any,
    text: str,
    check: Callable[[str, Any], Any] | None = None,
    *,
    choices: Sequence[Any] = (),
    group: str = "network",
    flag: str | None = "",
    parse: Callable[[str, Any], Any] | None = None,
    **argument: Any,
) -> Any:
    """A field of a recipe.

    Args:
        default: Its default; a default of `None` is left unchecked.
        text: What it is, for the flag's help and the class's documentation.
        check: Function from the field's name and value to the value to keep.
        choices: The values to choose from, in place of `check`.
        group: The group of flags that it belongs to.
        flag: Name of its flag; that of the field by default, and `None` for no flag.
        parse: Function from the field's name and what argparse gives to a value.
        **argument: Arguments of `add_argument`.
    """
    if choices:
        check = check or (lambda name, value: check_choice(name, value, choices))
        text = f"{text}; one of {', '.join(map(str, choices))}"
        argument = {"metavar": "NAME", **argument}
    about = {"text": text, "check": check, "group": group, "flag": flag, "parse": parse}
    return dataclasses.field(default=default, metadata={**about, "argument": argument})


def at_least(minimum: int) -> Callable[[str, Any], int]:
    """The check of a whole number."""
    return lambda name, value: check_integer(name, value, minimum)


def between(low: float, high: float) -> Callable[[str, Any], float]:
    """The check of a number from `low` up to, but not including, `high`."""

    def check(name: str, value: Any) -> float:
        if not low <= check_non_negative(name, value) < high:
            raise ValueError(
                f"`{name}` must lie in [{low:g}, {high:g}). Received: {name}={value!r}"
            )
        return float(value)

    return check


@typing.dataclass_transform(frozen_default=True, field_specifiers=(setting,), kw_only_default=True)
def recipe(cls: type) -> Any:
    """A class decorator: a frozen dataclass, documented by the texts of its fields."""
    cls = dataclasses.dataclass(frozen=True)(cls)
    lines = [f"{field.name}: {field.metadata['text']}." for field in dataclasses.fields(cls)]
    wrapped = ("\n".join(textwrap.wrap(line, 88, subsequent_indent="    ")) for line in lines)
    attributes = textwrap.indent("\n".join(wrapped), " " * 8)
    cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n\n    Attributes:\n{attributes}\n    "
    return cls


@recipe
class TrainingRecipe:
    """How any model is trained; a task adds its network and data."""

    epochs: int = setting(10, "passes over the training data", at_least(1), **COUNT)
    batch_size: int = setting(50, "images in a step, over all devices", at_least(1), **COUNT)
    learning_rate: float = setting(
        0.01, "of the first step, from which it falls by a half cosine", check_positive, **RATE
    )
    final_learning_rate: float = setting(
        None, "of the last step; a 200th of the first if left out", check_positive, **RATE
    )
    seed: int = setting(0, "of initial weights and the order of images", at_least(0), **COUNT)
    precision: str = setting(
        "float32",
        "half precision where it does no harm, for GPUs that are faster with it",
        choices=PRECISIONS,
        group="machine",
        flag="--mixed-precision",
    )
    distribute: bool = setting(False, "train on all GPUs of this machine together", group="machine")
    jit: bool = setting(False, "compile with XLA (GPUs; on CPUs it is slower)", group="machine")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, check = getattr(self, field.name), field.metadata["check"]
            if check and not (value is None and field.default is None):
                object.__setattr__(self, field.name, check(field.name, value))
        if self.final_learning_rate is None:
            object.__setattr__(self, "final_learning_rate", _FINAL_RATE * self.learning_rate)
        if self.final_learning_rate > self.learning_rate:
            raise ValueError(
                "`final_learning_rate` must be at most `learning_rate`. Received: "
                f"final_learning_rate={self.final_learning_rate}, "
                f"learning_rate={self.learning_rate}"
            )

    def as_dict(self) -> dict[str, Any]:
        """As JSON would give it back."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


def _extents(name: str, value: Sequence[float]) -> tuple[float, float]:
    extents = tuple(value) if isinstance(value, Sequence) else ()
    if len(extents) != 2 or not check_positive(name, extents[0]) <= extents[1]:
        raise ValueError(
            f"`{name}` must be two extents in increasing order. Received: {name}={value!r}"
        )
    return extents[0], check_positive(name, extents[1])


@recipe
class Recipe(TrainingRecipe):
    """How a classifier is made and trained. With the data it fixes the result, bit by bit."""

    network: str = setting("default", "preset whose widths the layers have", choices=NETWORKS)
    widths: tuple[int, ...] | None = setting(
        None, "feature channels of the layers before the last, instead of the preset's", **WIDTHS
    )
    scale_ratio: float = setting(
        1.25, "ratio between the sigmas of successive layers", check_positive, flag=None
    )
    scales: tuple[float, ...] = setting(
        PAPER_SCALES, "sigma_0 of the finished network's scale channels", **CHANNELS
    )
    train_scales: tuple[float, ...] | None = setting(
        None, "those in training, if they are to be others, such as fewer", **CHANNELS
    )
    pooling: str = setting("max", "how scale channels are pooled", choices=POOLINGS)
    scale_dropout: float = setting(
        0.0,
        "share of the scale channels that training leaves out at random",
        between(0, 1),
        **SHARE,
    )
    readout: str = setting(
        "center",
        "what is read of an image: its center, an object anywhere, or the average of all places",
        choices=tuple(READOUTS),
    )
    zero_order: bool = setting(False, "let layers see brightness itself, not only its derivatives")
    order: int = setting(2, "highest order of differentiation", choices=(1, 2, 3), type=int)
    residual: bool = setting(False, "make residual blocks of pairs of layers after the first")
    cone: float = setting(
        DEFAULT_CONE,
        "width of the receptive cone in standard deviations, where the center is read",
        check_positive,
        type=float,
        metavar="WIDTH",
    )
    surround: float = setting(
        0.0,
        "share of their size by which the finished network continues images at their edges",
        lambda _, value: check_surround(value),
        **SHARE,
    )
    sampling: str = setting(
        "matched",
        "grids that match each channel's scale, or the paper to the letter (dense)",
        choices=SAMPLINGS,
    )
    augment: tuple[float, float] | None = setting(
        None,
        "smallest and largest extent of the objects in training images, in pixels: images are then "
        "rotated, sheared and shifted in proportion to the first, and half of them cut to smaller "
        "frames in proportion to the second, unless it is the whole image; sizes are kept",
        _extents,
        group="training",
        parse=lambda *_: None,  # commands know the extents
        action=argparse.BooleanOptionalAction,
        help="rotate, shear and shift training images a little, sizes kept",
    )
    light: bool = setting(
        False,
        "change light, color, shade and focus of training images, as photographs differ in them",
        group="training",
    )
    loss: str = setting(
        "binary",
        "cross-entropy of each class on its own, as in the paper, or of all classes",
        choices=tuple(LOSSES),
        group="training",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.surround and self.readout == "average":  # else it fails after the training
            raise ValueError(
                f"`surround` must be 0 for readout='average'. Received: surround={self.surround}"
            )

    @property
    def training_scales(self) -> tuple[float, ...]:
        """sigma_0 of the scale channels in training."""
        return self.train_scales or self.scales
