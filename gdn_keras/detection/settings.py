"""What a detector is trained and tested on."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from gdn_keras.checks import (
    check_choice,
    check_integer,
    check_positive,
    check_scales,
    check_widths,
)
from gdn_keras.datasets.scenes import BACKGROUNDS, Scenes, SceneSet, digit_scenes, scene_set

_TEST_SEED = 1_000_003  # test scenes are the same for all seeds of the training


def _powers(first: int, last: int, per_octave: int) -> tuple[float, ...]:
    return tuple(2.0 ** (k / per_octave) for k in range(first, last + 1))


@dataclass(frozen=True)
class DetectorSettings:
    """One training of a detector of digits, and its test at other sizes.

    Args:
        widths: Feature channels of the network's layers before the last.
        scales: sigma_0 of the scale channels of the finished detector.
        train_scales: Those of the training.
        train_sizes: Sizes of the digits in training.
        train_frame: Height and width of the scenes in training.
        train_count: Least and greatest number of digits in them.
        background: "empty" or "clutter", in training and test.
        batch_size, steps, epochs: Scenes in a batch, batches in an epoch, and epochs.
        learning_rate, final_learning_rate: Ends of a half cosine over the training.
        seed: Of the weights and of the scenes.
        test_sizes: Sizes of the digits in the test.
        test_shape: Height and width of the scenes there.
        test_count: Least and greatest number of digits in them.
        test_scenes: How many of them.
    """

    widths: tuple[int, ...] = (12, 16, 24, 32, 64)
    scales: tuple[float, ...] = _powers(-2, 7, per_octave=2)
    train_scales: tuple[float, ...] = _powers(-1, 3, per_octave=2)
    train_sizes: tuple[float, ...] = (1.0,)
    train_frame: int = 96
    train_count: tuple[int, int] = (2, 6)
    background: str = "empty"
    batch_size: int = 16
    steps: int = 100
    epochs: int = 12
    learning_rate: float = 0.01
    final_learning_rate: float = 5e-5
    seed: int = 0
    test_sizes: tuple[float, ...] = _powers(-2, 6, per_octave=2)
    test_shape: tuple[int, int] = (480, 640)
    test_count: tuple[int, int] = (14, 20)
    test_scenes: int = 60

    def __post_init__(self):
        for name in ("widths", "scales", "train_scales", "train_sizes", "test_sizes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        check_widths(self.widths)
        for name in ("scales", "train_scales", "train_sizes", "test_sizes"):
            check_scales(getattr(self, name), name)
        for name in ("train_frame", "batch_size", "steps", "epochs", "test_scenes"):
            check_integer(name, getattr(self, name))
        check_integer("seed", self.seed, minimum=0)
        check_choice("background", self.background, BACKGROUNDS)
        check_positive("learning_rate", self.learning_rate)
        check_positive("final_learning_rate", self.final_learning_rate)
        self.training_scenes()
        self._test_recipe()

    def training_scenes(self) -> Scenes:
        """What is drawn, scene after scene, in training."""
        return digit_scenes(
            "train",
            sizes=self.train_sizes,
            shape=(self.train_frame, self.train_frame),
            count=self.train_count,
            background=self.background,
        )

    def test_set(self) -> SceneSet:
        """The scenes of the test."""
        return scene_set(self._test_recipe(), self.test_scenes, _TEST_SEED)

    def _test_recipe(self) -> Scenes:
        return digit_scenes(
            "test",
            sizes=self.test_sizes,
            shape=self.test_shape,
            count=self.test_count,
            background=self.background,
        )

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        content = dataclasses.asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in content.items()}
