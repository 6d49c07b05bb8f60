"""Recipes: dataclasses whose fields carry their own flags, checks and documentation."""

import dataclasses
import json
import textwrap
import typing
from collections.abc import Callable, Sequence
from typing import Any

from gdn_keras.checks import check_choice, check_integer, check_learning_rates, check_positive

PRECISIONS = ("float32", "float16", "bfloat16")
COUNT = {"group": "training", "type": int, "metavar": "N"}
_FINAL_RATE = 1 / 200  # of the first learning rate


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
        0.01,
        "of the first step and, by a half cosine, of the last one (a 200th of it if left out)",
        check_positive,
        **{**COUNT, "type": float, "nargs": "+", "metavar": "RATE"},
    )
    final_learning_rate: float = setting(
        None, "of the last step; a 200th of the first if `None`", check_positive, flag=None
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
        check_learning_rates(self.learning_rate, self.final_learning_rate)

    def as_dict(self) -> dict[str, Any]:
        """As JSON would give it back."""
        return json.loads(json.dumps(dataclasses.asdict(self)))
