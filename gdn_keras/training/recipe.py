"""How a network is made and trained, as plain data."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from gdn_keras.checks import (
    check_choice,
    check_integer,
    check_learning_rates,
    check_non_negative,
    check_positive,
    check_scales,
    check_surround,
    check_widths,
)
from gdn_keras.layers.scale_pooling import POOLINGS
from gdn_keras.models.gaussian_derivative_network import READOUTS
from gdn_keras.presets import PAPER_SCALES, PRESETS
from gdn_keras.scale_space import DEFAULT_CONE, SAMPLINGS

LOSSES = ("binary", "softmax")
NETWORKS = tuple(name for name, entry in PRESETS.items() if "weights" not in entry)
PRECISIONS = ("float32", "float16", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a network is made and trained. With the data it fixes the result, bit by bit.

    Attributes:
        network: "mnist", "default" or "large", see `gdn_keras.presets.PRESETS`.
        widths: Feature channels of the layers before the last; the preset's if `None`.
        scales: sigma_0 of the scale channels of the finished network.
        train_scales: sigma_0 of the scale channels in training; `scales` if `None`.
        pooling: "max", "average" or "logsumexp", over scale channels.
        scale_dropout: Share of the scale channels that are left out at random in training.
        sampling: "matched" or "dense".
        cone: Width of the receptive cone where the centre is read, see `ScaleChannels`.
        readout: What is read of an image: its "center", an object "anywhere", or the "average" of
            all places.
        surround: Share of their height and width by which the finished network continues images
            beyond their edges, see `gaussian_derivative_network`; in training they are as they are.
        order: Highest order of differentiation, from 1 to 3.
        zero_order: Whether layers take the smoothed image itself too.
        residual: Whether pairs of layers after the first are residual blocks.
        augment: Smallest and largest extent, in pixels, of the objects in the training images:
            these are then rotated, sheared and shifted a little, in proportion to the first, and
            half of them cut to smaller frames, in proportion to the second, unless it is that of
            the whole image. Sizes are kept. `None` for images as they are.
        contrast: Largest factor by which the contrast of training images is changed at random,
            up or down; `None` for images as they are.
        epochs: Times that each training image is seen.
        batch_size: Images in a step, over all devices together.
        learning_rate: Of the first step; it falls by a half cosine, step by step,
        final_learning_rate: to this one.
        loss: "binary" (cross-entropy of each class on its own, the paper's) or "softmax".
        seed: Of the initial weights and of the order of the images.
        precision: "float32", or "float16" or "bfloat16" for mixed precision.
        distribute: Train on all GPUs of this machine.
        jit: Compile with XLA.
    """

    network: str = "default"
    widths: tuple[int, ...] | None = None
    scales: tuple[float, ...] = PAPER_SCALES
    train_scales: tuple[float, ...] | None = None
    pooling: str = "max"
    scale_dropout: float = 0.0
    sampling: str = "matched"
    cone: float = DEFAULT_CONE
    readout: str = "center"
    surround: float = 0.0
    order: int = 2
    zero_order: bool = False
    residual: bool = False
    augment: tuple[float, float] | None = None
    contrast: float | None = None
    epochs: int = 10
    batch_size: int = 50
    learning_rate: float = 0.01
    final_learning_rate: float = 0.00005
    loss: str = "binary"
    seed: int = 0
    precision: str = "float32"
    distribute: bool = False
    jit: bool = False

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {"scales": check_scales(self.scales, "scales")}
        checked["cone"] = check_positive("cone", self.cone)
        checked["surround"] = check_surround(self.surround)
        if self.widths is not None:
            checked["widths"] = check_widths(self.widths)
        if self.train_scales is not None:
            checked["train_scales"] = check_scales(self.train_scales, "train_scales")
        if self.augment is not None:
            checked["augment"] = _check_extents(self.augment)
        for name, minimum in {"epochs": 1, "batch_size": 1, "seed": 0}.items():
            checked[name] = check_integer(name, getattr(self, name), minimum)
        if check_non_negative("scale_dropout", self.scale_dropout) >= 1:
            raise ValueError(
                "`scale_dropout` must lie in [0, 1). "
                f"Received: scale_dropout={self.scale_dropout!r}"
            )
        if self.contrast is not None and check_positive("contrast", self.contrast) < 1:
            raise ValueError(f"`contrast` must be at least 1. Received: contrast={self.contrast!r}")
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        choices: dict[str, tuple[Any, ...]] = {"order": (1, 2, 3)}
        choices |= {"network": NETWORKS, "pooling": POOLINGS, "sampling": SAMPLINGS}
        choices |= {"loss": LOSSES, "precision": PRECISIONS, "readout": tuple(READOUTS)}
        for name, allowed in choices.items():
            check_choice(name, getattr(self, name), allowed)
        check_learning_rates(self.learning_rate, self.final_learning_rate)

    @property
    def training_scales(self) -> tuple[float, ...]:
        """sigma_0 of the scale channels in training."""
        return self.train_scales or self.scales

    def as_dict(self) -> dict[str, Any]:
        """As JSON would give it back."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


def _check_extents(values: Sequence[float]) -> tuple[float, float]:
    extents = tuple(values) if isinstance(values, Sequence) else ()
    if len(extents) != 2 or not check_positive("augment", extents[0]) <= extents[1]:
        raise ValueError(
            f"`augment` must be two extents in increasing order. Received: augment={values!r}"
        )
    return extents[0], check_positive("augment", extents[1])
