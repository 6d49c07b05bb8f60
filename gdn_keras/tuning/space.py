"""What a search may choose from, and what it chooses."""

import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gdn_keras.checks import check_choice, check_integer, check_positive
from gdn_keras.layers.scale_pooling import POOLINGS
from gdn_keras.presets import PRESETS

Number = TypeVar("Number", int, float)


class Candidate(NamedTuple):
    """A network of the search, and how fast it is to learn."""

    widths: tuple[int, ...]
    scale_ratio: float
    pooling: str
    learning_rate: float

    @property
    def widths_text(self) -> str:
        """The widths as they are written, such as 12-16-24."""
        return "-".join(map(str, self.widths))


@dataclasses.dataclass(frozen=True)
class Space:
    """What a search may choose from: for each quantity one value, or several.

    Example, with a last layer that is always 64 wide:

    >>> rungs = (8, 12, 16, 24, 32)
    >>> space = Space(widths=[rungs, rungs, rungs, 64], layers=4, learning_rate=(0.003, 0.01))

    Attributes:
        widths: Feature channels to choose from in every layer before the last; or, to say it layer
            by layer, a sequence that holds at least one sequence, and numbers where they are fixed.
        layers: Number of layers before the last, which has a channel for each class.
        scale_ratio: r, the ratio between the sigmas of successive layers.
        pooling: "max", "average" or "logsumexp", over scale channels.
        learning_rate: Of the first step; the last one has 1/200 of it.
        non_decreasing: Whether no layer may be narrower than the one before it, as in the paper.
    """

    widths: Sequence[int | Sequence[int]] = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
    layers: int | Sequence[int] = (3, 4, 5, 6)
    scale_ratio: float | Sequence[float] = (1.15, 1.25, 1.4)
    pooling: str | Sequence[str] = "max"
    learning_rate: float | Sequence[float] = 0.01
    non_decreasing: bool = True

    def __post_init__(self) -> None:
        for name, value in self._checked._asdict().items():
            object.__setattr__(self, name, value)

    @functools.cached_property
    def _checked(self) -> "_Choices":
        """Each quantity as a sequence, whatever was given."""
        layers = _choices("layers", self.layers, check_integer)
        ratios = _choices("scale_ratio", self.scale_ratio, check_positive)
        if ratios[0] < 1:
            raise ValueError(f"`scale_ratio` must be >= 1. Received: scale_ratio={ratios[0]!r}")
        return _Choices(
            widths=self._checked_widths(layers[-1]),
            layers=layers,
            scale_ratio=ratios,
            pooling=_choices("pooling", self.pooling, _check_pooling),
            learning_rate=_choices("learning_rate", self.learning_rate, check_positive),
        )

    def _checked_widths(self, layers: int) -> tuple[tuple[int, ...], ...]:
        """Choices of each layer, without those that leave a later layer none."""
        given = self.widths
        if isinstance(given, Sequence) and any(isinstance(w, Sequence) for w in given):
            if len(given) < layers:
                raise ValueError(
                    f"`widths` must name {layers} layers, or one sequence of numbers for all of "
                    f"them. Received: widths={given!r}"
                )
            choices = [_choices("widths", w, check_integer) for w in given[:layers]]
        else:
            choices = [_choices("widths", given, check_integer)] * layers
        if self.non_decreasing:
            for k in range(layers - 2, -1, -1):
                choices[k] = tuple(w for w in choices[k] if w <= choices[k + 1][-1])
                if not choices[k]:
                    raise ValueError(
                        "`widths` must allow widths that do not decrease, or `non_decreasing` be "
                        f"False. Received: widths={given!r}"
                    )
        return tuple(choices)

    def choices(self) -> dict[str, tuple]:
        """The values of each hyperparameter, by name; width_k is used from k layers on."""
        known = self._checked
        return {
            "layers": known.layers,
            **{f"width_{k}": choices for k, choices in enumerate(known.widths, 1)},
            "scale_ratio": known.scale_ratio,
            "pooling": known.pooling,
            "learning_rate": known.learning_rate,
        }

    def candidate(self, values: Mapping[str, Any]) -> Candidate:
        """The candidate that values of the hyperparameters stand for.

        Where widths must not decrease they are put in order; there are as many as layers.
        """
        drawn = [values[f"width_{k}"] for k in range(1, int(values["layers"]) + 1)]
        if self.non_decreasing:
            drawn.sort()
        widths = []
        for choices, width in zip(self._checked.widths, drawn, strict=False):
            widths.append(_nearest(self._at_least(choices, widths), width))
        return Candidate(
            tuple(widths),
            # Over gRPC, floats come with single precision.
            _nearest(self._checked.scale_ratio, values["scale_ratio"]),
            values["pooling"],
            _nearest(self._checked.learning_rate, values["learning_rate"]),
        )

    def values(self, candidate: Candidate) -> dict[str, Any]:
        """Values of the hyperparameters, the same whenever the candidate is."""
        others = candidate._asdict()
        widths = self._continued(others.pop("widths"), len(self._checked.widths))
        named = {f"width_{k}": width for k, width in enumerate(widths, 1)}
        return {"layers": len(candidate.widths), **named, **others}

    def narrowest(self) -> Iterator[Candidate]:
        """For each number of layers and each scale ratio, the candidate that costs the least."""
        known = self._checked
        for layers in known.layers:
            widths = tuple(self._continued((), layers))
            for ratio in known.scale_ratio:
                yield Candidate(widths, ratio, known.pooling[0], known.learning_rate[0])

    def closest_to(self, preset: str) -> Candidate | None:
        """A preset's widths with the closest of the other choices; `None` if they are no choice."""
        known = self._checked
        widths = tuple(PRESETS[preset]["parameters"]["widths"])
        if len(widths) not in known.layers or not all(
            width in choices for width, choices in zip(widths, known.widths, strict=False)
        ):
            return None
        return Candidate(
            widths,
            _nearest(known.scale_ratio, 1.25),
            "max" if "max" in known.pooling else known.pooling[0],
            _nearest(known.learning_rate, 0.01),
        )

    def as_dict(self) -> dict[str, Any]:
        """As JSON would give it back."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    def _continued(self, widths: Sequence[int], layers: int) -> list[int]:
        """`widths`, and for the layers that follow the narrowest that there may be."""
        widths = list(widths)
        for choices in self._checked.widths[len(widths) : layers]:
            widths.append(self._at_least(choices, widths)[0])
        return widths

    def _at_least(self, choices: tuple[int, ...], before: Sequence[int]) -> tuple[int, ...]:
        if not self.non_decreasing or not before:
            return choices
        return tuple(width for width in choices if width >= before[-1])


class _Choices(NamedTuple):
    """What a `Space` holds once it is checked, in ascending order."""

    widths: tuple[tuple[int, ...], ...]
    layers: tuple[int, ...]
    scale_ratio: tuple[float, ...]
    pooling: tuple[str, ...]
    learning_rate: tuple[float, ...]


def _choices(name: str, value: Any, check: Callable[[str, Any], Any]) -> tuple:
    """One value or several, checked, in ascending order and without repetitions."""
    several = not isinstance(value, str) and isinstance(value, Sequence | np.ndarray)
    choices = tuple(sorted({check(name, v) for v in (value if several else (value,))}))
    if not choices:
        raise ValueError(f"`{name}` must hold at least one value. Received: {name}={value!r}")
    return choices


def _check_pooling(name: str, value: str) -> str:
    return check_choice(name, value, POOLINGS)


def _nearest(choices: Sequence[Number], value: float) -> Number:
    return min(choices, key=lambda choice: abs(choice - value))
