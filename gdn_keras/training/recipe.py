"""Recipes: dataclasses whose fields carry their own flags, checks and documentation."""

import argparse
import dataclasses
import functools
import json
import re
import textwrap
import typing
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

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
    require,
)
from gdn_keras.layers.pooling import POOLINGS
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
        text = "be LOW HIGH N, with 0 < LOW <= HIGH and a whole number N of channels."
        raise ValueError(f"`{name}` must {text} Received: {low:g} {high:g} {count:g}")
    return tuple(np.geomspace(low, high, int(count)).tolist())


def at_least(minimum: int) -> Callable[[str, Any], int]:
    """The check of a whole number."""
    return functools.partial(check_integer, minimum=minimum)


def increasing(name: str, value: Any) -> tuple[float, ...]:
    """The check of scales and sizes."""
    return check_scales(value, name)


def _below_one(name: str, value: Any) -> float:
    require(check_non_negative(name, value) < 1, name, "lie in [0, 1)", value)
    return float(value)


def low_high(name: str, value: Sequence[float]) -> tuple[float, float]:
    """The check of a least and a greatest extent."""
    text = "be LOW HIGH, two extents in increasing order"
    require(isinstance(value, Sequence) and len(value) == 2, name, text, value)
    low, high = (check_positive(name, extent) for extent in value)
    require(low <= high, name, text, value)
    return low, high


# What fields of these kinds have in common, for `setting`.
COUNT = {"check": at_least(1), "group": "training", "type": int, "metavar": "N"}
RATE = {"check": check_positive, "group": "training", "type": float, "metavar": "RATE"}
WIDTHS = {"check": lambda _, v: check_widths(v), "type": int, "nargs": "+", "metavar": "N"}
CHANNELS = {
    "check": increasing,
    "parse": channels_between,
    "type": float,
    "nargs": 3,
    "metavar": ("LOW", "HIGH", "N"),
}


def setting(
    default: Any,
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
        check: Function from the field's name and value to the value to keep.
        choices: The values to choose from, in place of `check`.
        group: The group of flags that it belongs to.
        flag: Name of its flag; that of the field by default, and `None` for no flag.
        parse: Function from the field's name and what argparse gives to a value.
        **argument: Arguments of `add_argument`.
    """
    if choices:
        check = functools.partial(check_choice, choices=choices)
        argument = {"metavar": "NAME", **argument}
    about = {"check": check, "choices": choices, "group": group, "flag": flag, "parse": parse}
    return dataclasses.field(default=default, metadata={**about, "argument": argument})


@typing.dataclass_transform(frozen_default=True, field_specifiers=(setting,), kw_only_default=True)
def recipe(cls: type) -> Any:
    """A class decorator: a frozen dataclass, whose docstring has a text for each of its fields.

    The texts, also those of the classes that it extends, become `cls.texts` and then help of flags.
    A field of theirs may have another default, with the same `setting`.
    """
    inherited = getattr(cls.__base__, "__dataclass_fields__", {})
    for name in cls.__annotations__.keys() & inherited.keys():
        if not isinstance(default := vars(cls)[name], dataclasses.Field):
            metadata = inherited[name].metadata
            setattr(cls, name, dataclasses.field(default=default, metadata=metadata))
    cls = dataclasses.dataclass(frozen=True)(cls)
    head, _, own = (cls.__doc__ or "").partition("\n\n    Attributes:\n")
    texts = {**getattr(cls, "texts", {})}
    texts |= dict(re.findall(r"^ {8}(\w+): (.*(?:\n {9}.*)*)", own, re.MULTILINE))
    lines = []
    for field in dataclasses.fields(cls):
        text = " ".join(texts.get(field.name, "").split()).removesuffix(".")
        choices = ", ".join(map(str, field.metadata["choices"]))
        texts[field.name] = f"{text}; one of {choices}" if choices not in text else text
        line = f"{field.name}: {texts[field.name]}."
        lines += textwrap.wrap(line, 96, initial_indent=" " * 8, subsequent_indent=" " * 12)
    cls.texts, cls.__doc__ = texts, "\n".join([head, "", "    Attributes:", *lines, "    "])
    return cls


@recipe
class TrainingRecipe:
    """How any model is trained; a task adds its network and data.

    Attributes:
        epochs: passes over the training data.
        batch_size: images in a step, over all devices.
        learning_rate: of the first step, from which it falls by a half cosine.
        final_learning_rate: of the last step; a 200th of the first if left out.
        seed: of initial weights and the order of images.
        precision: half precision where it does no harm, for GPUs that are faster with it.
        distribute: train on all GPUs of this machine together.
        jit: compile with XLA (GPUs; on CPUs it is slower).
    """

    texts: ClassVar[dict[str, str]]

    epochs: int = setting(10, **COUNT)
    batch_size: int = setting(50, **COUNT)
    learning_rate: float = setting(0.01, **RATE)
    final_learning_rate: float = setting(None, **RATE)
    seed: int = setting(0, **{**COUNT, "check": at_least(0)})
    precision: str = setting(
        "float32", choices=PRECISIONS, group="machine", flag="--mixed-precision"
    )
    distribute: bool = setting(False, group="machine")
    jit: bool = setting(False, group="machine")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, check = getattr(self, field.name), field.metadata["check"]
            if check and not (value is None and field.default is None):
                object.__setattr__(self, field.name, check(field.name, value))
        if self.final_learning_rate is None:
            object.__setattr__(self, "final_learning_rate", _FINAL_RATE * self.learning_rate)
        falls = self.final_learning_rate <= self.learning_rate
        text = f"be at most `learning_rate`, {self.learning_rate}"
        require(falls, "final_learning_rate", text, self.final_learning_rate)

    def as_dict(self) -> dict[str, Any]:
        """As JSON would give it back."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


@recipe
class Recipe(TrainingRecipe):
    """How a classifier is made and trained. With the data it fixes the result, bit by bit.

    Attributes:
        network: preset whose widths the layers have.
        widths: feature channels of the layers before the last, instead of the preset's.
        scale_ratio: ratio between the sigmas of successive layers.
        scales: sigma_0 of the finished network's scale channels.
        train_scales: those in training, if they are to be others, such as fewer.
        pooling: how scale channels are pooled.
        scale_dropout: share of the scale channels that training leaves out at random.
        readout: what is read of an image: its center, an object anywhere, or the average of all
            places.
        zero_order: let layers see brightness itself, not only its derivatives.
        order: highest order of differentiation.
        residual: make residual blocks of pairs of layers after the first.
        cone: width of the receptive cone in standard deviations, where the center is read.
        surround: share of their size by which the finished network continues images at their edges.
        sampling: grids that match each channel's scale, or the paper to the letter (dense).
        augment: smallest and largest extent of the objects in training images, in pixels: images
            are then rotated, sheared and shifted in proportion to the first, and half of them cut
            to smaller frames in proportion to the second, unless it is the whole image; sizes are
            kept.
        light: change light, color, shade and focus of training images, as photographs differ in
            them.
        loss: cross-entropy of each class on its own, as in the paper, or of all classes.
    """

    network: str = setting("default", choices=NETWORKS)
    widths: tuple[int, ...] | None = setting(None, **WIDTHS)
    scale_ratio: float = setting(1.25, check_positive, flag=None)
    scales: tuple[float, ...] = setting(PAPER_SCALES, **CHANNELS)
    train_scales: tuple[float, ...] | None = setting(None, **CHANNELS)
    pooling: str = setting("max", choices=POOLINGS)
    scale_dropout: float = setting(0.0, _below_one, type=float, metavar="SHARE")
    readout: str = setting("center", choices=tuple(READOUTS))
    zero_order: bool = setting(False)
    order: int = setting(2, choices=(1, 2, 3), type=int)
    residual: bool = setting(False)
    cone: float = setting(DEFAULT_CONE, check_positive, type=float, metavar="WIDTH")
    surround: float = setting(0.0, lambda _, v: check_surround(v), type=float, metavar="SHARE")
    sampling: str = setting("matched", choices=SAMPLINGS)
    augment: tuple[float, float] | None = setting(
        None,
        low_high,
        group="training",
        parse=lambda *_: None,  # commands know the extents
        action=argparse.BooleanOptionalAction,
        help="rotate, shear and shift training images a little, sizes kept",
    )
    light: bool = setting(False, group="training")
    loss: str = setting("binary", choices=tuple(LOSSES), group="training")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.readout == "average":  # else it fails after the training
            require(not self.surround, "surround", "be 0 for readout='average'", self.surround)

    @property
    def training_scales(self) -> tuple[float, ...]:
        """sigma_0 of the scale channels in training."""
        return self.train_scales or self.scales
