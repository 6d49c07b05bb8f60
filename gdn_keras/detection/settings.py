"""What a detector is trained and tested on."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from gdn_keras.checks import (
    check_choice,
    check_integer,
    check_learning_rates,
    check_positive,
    check_scales,
    check_widths,
)
from gdn_keras.datasets import Digits, load_embedded_digits, load_mnist_directory
from gdn_keras.datasets.scenes import BACKGROUNDS, Scenes, SceneSet, digit_scenes, scene_set
from gdn_keras.detection.evaluation import TEST_SIZES
from gdn_keras.detection.targets import channel_spacing

_TEST_SEED = 1_000_003  # test scenes are the same for all seeds of the training


def _powers(first: int, last: int, per_octave: int) -> tuple[float, ...]:
    return tuple(2.0 ** (k / per_octave) for k in range(first, last + 1))


@dataclass(frozen=True)
class DetectorSettings:
    """One training of a detector of digits, and its test at other sizes.

    Args:
        widths: Feature channels of the network's layers before the last.
        scale_ratio: Ratio between the sigmas of successive layers. With sqrt(2) the network costs
            half of what it costs with the 1.25 of classifiers, and finds as much.
        boxes: Whether position and size are regressed. They are read off the heat otherwise.
        scales: sigma_0 of the scale channels of the finished detector.
        train_scales: Those of the training. They are closer together, so that the network learns
            what sizes between its channels look like.
        train_sizes: Sizes of the digits in training.
        train_frame: Height and width of the scenes in training.
        train_count: Least and greatest number of digits in them.
        augment: Whether they are rotated and sheared a little, each time anew.
        background: "empty" or "clutter", in training and test.
        mnist_dir: Folder with the four files of MNIST; the digits that come with the package if
            `None`.
        batch_size, steps, epochs: Scenes in a batch, batches in an epoch, and epochs.
        learning_rate, final_learning_rate: Ends of a half cosine over the training.
        seed: Of the weights and of the scenes.
        test_sizes: Sizes of the digits in the test.
        test_shape: Height and width of the scenes there.
        test_count: Least and greatest number of digits in them.
        test_scenes: How many of them.
    """

    widths: tuple[int, ...] = (12, 16, 24, 32, 64)
    scale_ratio: float = 2**0.5
    boxes: bool = True
    scales: tuple[float, ...] = _powers(-2, 7, per_octave=2)
    train_scales: tuple[float, ...] = _powers(-2, 6, per_octave=4)
    train_sizes: tuple[float, ...] = (1.0,)
    train_frame: int = 96
    train_count: tuple[int, int] = (4, 14)
    augment: bool = True
    background: str = "empty"
    mnist_dir: str | None = None
    batch_size: int = 8
    steps: int = 100
    epochs: int = 36
    learning_rate: float = 0.01
    final_learning_rate: float = 5e-5
    seed: int = 0
    test_sizes: tuple[float, ...] = TEST_SIZES
    test_shape: tuple[int, int] = (480, 640)
    test_count: tuple[int, int] = (14, 20)
    test_scenes: int = 120

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", check_widths(self.widths))
        for name in ("scales", "train_scales", "train_sizes", "test_sizes"):
            object.__setattr__(self, name, check_scales(getattr(self, name), name))
        for name in ("scales", "train_scales"):
            if len(getattr(self, name)) > 1:
                channel_spacing(getattr(self, name), name)
        for name in ("train_frame", "batch_size", "steps", "epochs", "test_scenes"):
            check_integer(name, getattr(self, name))
        check_integer("seed", self.seed, minimum=0)
        check_choice("background", self.background, BACKGROUNDS)
        check_positive("scale_ratio", self.scale_ratio)
        check_learning_rates(self.learning_rate, self.final_learning_rate)
        self.training_scenes()
        self._test_recipe()

    def training_scenes(self) -> Scenes:
        """What is drawn, scene after scene, in training."""
        return digit_scenes(
            "train",
            source=self._digits(),
            augment=self.augment,
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
            source=self._digits(),
            sizes=self.test_sizes,
            shape=self.test_shape,
            count=self.test_count,
            background=self.background,
        )

    def _digits(self) -> Digits:
        if self.mnist_dir is None:
            return load_embedded_digits()
        return load_mnist_directory(self.mnist_dir)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        content = dataclasses.asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in content.items()}
