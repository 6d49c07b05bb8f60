"""STIR-MNIST: digits of 17 to 64 pixels, anywhere in frames of 64."""

import itertools
import math
import os
from collections.abc import Sequence

import keras
import numpy as np
from scipy import ndimage

from gdn_keras.checks import check_choice, check_integer
from gdn_keras.datasets.digits import Digits, load_digits
from gdn_keras.datasets.image_data import (
    ImageData,
    LabelledImages,
    check_test_split,
    checked_count,
    concatenate,
    register_dataset,
)
from gdn_keras.datasets.mnist import CLASS_NAMES
from gdn_keras.datasets.transform import rescale_images

FRAME = 64
SIZES = tuple(range(17, 65))
SCENARIOS = {
    1: tuple(range(17, 33)),
    2: tuple(range(33, 49)),
    3: tuple(range(49, 65)),
    4: SIZES,
}

_DIGIT = 28  # pixels of MNIST's own frame
_SPLITS = ("train", "validation", "test")


@register_dataset("stir_mnist")
def stir_mnist(
    directory: str | os.PathLike | None = None,
    *,
    scenario: int = 2,
    source: str | None = None,
    count: int = 50,
    test_sizes: Sequence[int] = SIZES,
    test_split: str = "test",
    train_frame: int | None = None,
    seed: int = 0,
) -> ImageData:
    """STIR-MNIST (Altstidl et al. 2023), made from MNIST: trained on some sizes, tested on all.

    A size is the side of a digit's frame in pixels, which is 28 in MNIST. Every training digit
    appears at every training size, each time elsewhere. Validation images have the same sizes,
    one a digit. The published files hold other digits in other places, made in the same way.

    Args:
        directory, source: Where the digits are, as for "mnist". Digits to train and to validate
            with are from its training files, those to test with from its test files.
        scenario: Training sizes: 1 for 17 to 32, 2 for 33 to 48, 3 for 49 to 64, 4 for all.
        count: Digits of each class, in each of the three splits.
        test_sizes: The sizes to test at.
        test_split: `"test"`, or `"validation"` to choose between networks without test images.
        train_frame: Height and width of training and validation images; 64 if `None`. A digit may
            lie anywhere in it, so it must hold the largest.
        seed: Of the choice of digits and of their places.
    """
    sizes = SCENARIOS[check_choice("scenario", scenario, tuple(SCENARIOS))]
    digits = _choose(load_digits(directory, source), count, check_integer("seed", seed, minimum=0))
    check_test_split(test_split)
    for size in test_sizes:
        check_choice("test_sizes", size, SIZES)
    side = check_integer("train_frame", FRAME if train_frame is None else train_frame, max(sizes))

    def render(
        split: str, size: float, part: slice = slice(None), frame: int = side
    ) -> LabelledImages:
        images, labels = digits[split]
        rng = np.random.default_rng([seed, _SPLITS.index(split), int(size)])
        return LabelledImages(render_digits(images[part], int(size), rng, frame), labels[part])

    ends = np.linspace(0, len(digits["validation"][1]), len(sizes) + 1).astype(int)
    turns = [slice(*pair) for pair in itertools.pairwise(ends)]
    return ImageData(
        name="stir_mnist",
        train=concatenate([render("train", size) for size in sizes]),
        validation=concatenate(
            [render("validation", size, turn) for size, turn in zip(sizes, turns, strict=True)]
        ),
        test=lambda size: render(test_split, size, frame=FRAME),
        test_sizes=tuple(test_sizes),
        class_names=CLASS_NAMES,
        preprocessor=keras.layers.Rescaling(1 / 255),
        size_name="size of the digit's frame, pixels",
        train_sizes=sizes,
    )


def render_digits(
    digits: np.ndarray, size: int, rng: np.random.Generator, frame: int = FRAME
) -> np.ndarray:
    """Digits at one size and at random places, uint8 `[n, frame, frame, 1]`.

    Resized by cubic splines, smoothed first where they shrink; placed; smoothed by 7/8 of a pixel
    of the digit; and brought to (2/π) arctan(0.02 (I − 128)), stretched from 0 to 255.

    Args:
        digits: uint8 `[n, 28, 28]`.
        size: Side of the resized digits, in pixels.
        rng: Of the places.
        frame: Height and width of the images.
    """
    factor = size / _DIGIT
    against_aliasing = max(0.0, (1 / factor - 1) / 2)
    resized = rescale_images(digits, factor, (size, size), smoothing=against_aliasing, peak=None)
    frames = np.zeros((len(digits), frame, frame), "float32")
    places = rng.integers(0, frame - size + 1, (len(digits), 2))
    for image, digit, (row, column) in zip(frames, resized, places, strict=True):
        image[row : row + size, column : column + size] = np.clip(digit, 0, 255)
    sigma = 7 / 8 * factor
    smooth = ndimage.gaussian_filter(frames, (0, sigma, sigma), mode="nearest")
    images = 2 / math.pi * np.arctan(0.02 * (smooth - 128))
    low, high = (f(images, axis=(1, 2), keepdims=True) for f in (np.min, np.max))
    return (255 * (images - low) / (high - low)).astype("uint8")[..., None]


def _choose(digits: Digits, count: int, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """`count` digits of each class for each split, the classes taking turns."""
    rng = np.random.default_rng(seed)
    parts: dict[str, list[np.ndarray]] = {split: [] for split in _SPLITS}
    for label in range(len(CLASS_NAMES)):
        own, others = (np.flatnonzero(y == label) for y in (digits.y_train, digits.y_test))
        checked_count(count, min(len(own) // 2, len(others)))
        own = rng.permutation(own)
        parts["train"].append(own[:count])
        parts["validation"].append(own[count : 2 * count])
        parts["test"].append(rng.permutation(others)[:count])
    orders = {split: np.stack(part, axis=1).ravel() for split, part in parts.items()}
    chosen = {
        split: (digits.x_train[orders[split]], digits.y_train[orders[split]])
        for split in ("train", "validation")
    }
    return {**chosen, "test": (digits.x_test[orders["test"]], digits.y_test[orders["test"]])}
