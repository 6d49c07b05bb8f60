"""Everything that a training run depends on, as plain data."""

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

from gdn_keras.datasets import TEST_SIZES, TRAIN_SIZES
from gdn_keras.layers.scale_pooling import POOLINGS
from gdn_keras.presets import PAPER_SCALES, PRESETS
from gdn_keras.scale_space import SAMPLINGS
from gdn_keras.scale_space.validation import (
    check_choice,
    check_integer,
    check_positive,
    check_scales,
    check_widths,
)

DATA = ("embedded", "mnist", "tfds", "official")
IMAGES = ("large_scale", "mnist")
LOSSES = ("binary", "softmax")
# Presets to train; the others are trained ones.
NETWORKS = tuple(name for name, entry in PRESETS.items() if "weights" not in entry)
PRECISIONS = ("float32", "float16", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a run is made of. Two runs with equal settings give equal results.

    The defaults are the job of `examples/train_large_scale.py`: one training size, all test sizes,
    in minutes on a CPU.

    Attributes:
        network: "mnist", "default" or "large", see `gdn_keras.presets.PRESETS`.
        widths: Feature channels of the layers before the last; the preset's if `None`.
        scales: sigma_0 of the scale channels of the finished network.
        train_scales: sigma_0 of the scale channels in training; `scales` if `None`.
        pooling: "max", "average" or "logsumexp", over scale channels.
        sampling: "matched" or "dense".
        images: "large_scale" for MNIST Large Scale, "mnist" for the original digits.
        train_sizes: The sizes to train on; with several, every digit comes at each of them.
        test_sizes: The sizes to test at.
        frame: Height and width of the test images.
        train_frame: Height and width of the training images; `frame` if `None`.
        data: "embedded", "mnist" (the four files in `data_dir`), "tfds", or "official" (the
            published HDF5 files in `data_dir`).
        data_dir: See `data`; for "tfds" its data directory, or `None` for the usual one.
        digits: Training digits, from the first on; all that there are if `None`.
        test_digits: Test digits for each size; all that there are if `None`.
        augment: Show each training image rotated, sheared and shifted a little, at its size, and
            half of those of MNIST Large Scale in a smaller frame. The commands leave it out by
            default where there are more digits than those of the package.
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
    sampling: str = "matched"
    images: str = "large_scale"
    train_sizes: tuple[float, ...] = (2.0,)
    test_sizes: tuple[float, ...] = TEST_SIZES
    frame: int = 112
    train_frame: int | None = None
    data: str = "embedded"
    data_dir: str | None = None
    digits: int | None = None
    test_digits: int | None = None
    augment: bool = True
    epochs: int = 10
    batch_size: int = 50
    learning_rate: float = 0.01
    final_learning_rate: float = 0.00005
    loss: str = "binary"
    seed: int = 0
    precision: str = "float32"
    distribute: bool = False
    jit: bool = False

    def __post_init__(self):
        checks = {"scales": check_scales, "train_sizes": _numbers, "test_sizes": _numbers}
        if self.widths is not None:
            object.__setattr__(self, "widths", check_widths(self.widths))
        if self.train_scales is not None:
            checks["train_scales"] = check_scales
        for name, check in checks.items():
            object.__setattr__(self, name, check(getattr(self, name), name))
        object.__setattr__(self, "test_sizes", tuple(sorted(self.test_sizes)))
        if self.data_dir is not None:
            object.__setattr__(self, "data_dir", os.fspath(self.data_dir))
        choices = {"network": NETWORKS, "pooling": POOLINGS, "sampling": SAMPLINGS}
        choices |= {"images": IMAGES, "data": DATA, "loss": LOSSES, "precision": PRECISIONS}
        for name, allowed in choices.items():
            check_choice(name, getattr(self, name), allowed)
        self._check_counts()
        self._check_rates()
        self._check_sizes()
        self._check_data()

    def _check_counts(self):
        minima = {"epochs": 1, "batch_size": 1, "frame": 3, "seed": 0}
        optional = {"digits": 1, "test_digits": 1, "train_frame": 3}
        minima |= {name: n for name, n in optional.items() if getattr(self, name) is not None}
        for name, minimum in minima.items():
            object.__setattr__(self, name, check_integer(name, getattr(self, name), minimum))

    def _check_rates(self):
        check_positive("learning_rate", self.learning_rate)
        check_positive("final_learning_rate", self.final_learning_rate)
        if self.final_learning_rate > self.learning_rate:
            raise ValueError(
                "`final_learning_rate` must be at most `learning_rate`. Received: "
                f"final_learning_rate={self.final_learning_rate}, "
                f"learning_rate={self.learning_rate}"
            )

    def _check_sizes(self):
        lowest, highest = TEST_SIZES[0], TEST_SIZES[-1]
        for name in ("train_sizes", "test_sizes"):
            sizes = getattr(self, name)
            if not sizes or len(set(sizes)) < len(sizes):
                raise ValueError(f"`{name}` must be different sizes. Received: {name}={sizes}")
            if not all(lowest <= size <= highest for size in sizes):
                raise ValueError(
                    f"`{name}` must lie between {lowest:g} and {highest:g}; the paper trains on "
                    f"{_listed(TRAIN_SIZES)}. Received: {name}={sizes}"
                )
        if self.data == "official" and not set(self.train_sizes) <= set(TRAIN_SIZES):
            raise ValueError(
                f"The official files have the training sizes {_listed(TRAIN_SIZES)} only; other "
                f"sizes can be made from MNIST. Received: train_sizes={self.train_sizes}"
            )

    def _check_data(self):
        if self.data in ("mnist", "official") and not self.data_dir:
            raise ValueError(f"`data_dir` must be given for data={self.data!r}. Received: None")
        if self.data == "official" and {self.frame, self.training_frame} != {112}:
            raise ValueError(
                "The official files have frames of 112 pixels. "
                f"Received: frame={self.frame}, train_frame={self.train_frame}"
            )
        original = self.images == "mnist"
        if original and (self.data == "official" or {self.frame, self.training_frame} != {28}):
            raise ValueError(
                'images="mnist" are the original 28x28 digits. '
                f"Received: frame={self.frame}, train_frame={self.train_frame}, data={self.data!r}"
            )
        if original and {self.train_sizes, self.test_sizes} != {(1.0,)}:
            raise ValueError(
                'images="mnist" have the size 1 only: set train_sizes=(1,) and test_sizes=(1,). '
                f"Received: train_sizes={self.train_sizes}, test_sizes={self.test_sizes}"
            )

    @property
    def training_frame(self) -> int:
        """Height and width of the training images."""
        return self.train_frame or self.frame

    @property
    def training_scales(self) -> tuple[float, ...]:
        """sigma_0 of the scale channels in training."""
        return self.train_scales or self.scales

    def single_channel(self) -> "Settings":
        """The contrast network: one scale channel, sigma_0 = training size."""
        if len(self.train_sizes) > 1:
            raise ValueError(
                "The single-channel network needs one training size, which is its sigma_0. "
                f"Received: train_sizes={self.train_sizes}"
            )
        return dataclasses.replace(self, scales=self.train_sizes, train_scales=None)

    def as_dict(self) -> dict[str, Any]:
        """As JSON would give it back."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


def _numbers(values: Sequence[float], name: str) -> tuple[float, ...]:
    try:
        return tuple(check_positive(name, value) for value in values)
    except TypeError:
        raise ValueError(
            f"`{name}` must be a sequence of numbers. Received: {name}={values!r}"
        ) from None


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{v:g}" for v in values)
