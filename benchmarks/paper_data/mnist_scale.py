"""MNIST-Scale: digits shrunk at random in the frames of MNIST."""

import os

import keras
import numpy as np

from gdn_keras.checks import check_integer
from gdn_keras.datasets.digits import Digits, load_digits
from gdn_keras.datasets.image_data import (
    ImageData,
    LabelledImages,
    check_test_split,
    checked_count,
    register_dataset,
)
from gdn_keras.datasets.image_files import import_pillow
from gdn_keras.datasets.mnist import CLASS_NAMES

FACTORS = (0.3, 1.0)
COUNTS = {"train": 10_000, "validation": 2_000, "test": 50_000}


@register_dataset("mnist_scale")
def mnist_scale(
    directory: str | os.PathLike | None = None,
    *,
    source: str | None = None,
    enlarge: int = 1,
    copies: int = 1,
    count: int | None = None,
    test_count: int | None = None,
    test_split: str = "test",
    seed: int = 0,
) -> ImageData:
    """MNIST-Scale (Sosnovik et al. 2020), made from MNIST: factors drawn evenly from 0.3 to 1.

    All digits of MNIST, training and test files together, are drawn anew: 10 000 to train with,
    2 000 to validate and 50 000 to test with, each class with its share. Digits are shrunk about
    their middle by Pillow's bicubic interpolation, which does not smooth them first. There is one
    test size, since sizes are mixed. Of fewer digits than MNIST's, splits have the same shares.

    Args:
        directory, source: Where the digits are, as for "mnist".
        enlarge: Whole factor by which the shrunk images are enlarged, again by bicubic
            interpolation; published results are with 1 and with 2.
        copies: Times that each training digit appears: as it is, and then rescaled, from its shrunk
            image, to other factors that are drawn in the same way.
        count: Training digits, from the first on; all if `None`.
        test_count: Test digits, from the first on; all if `None`.
        test_split: `"test"`, or `"validation"` to choose between networks without test images.
        seed: Of the splits and factors; published results are means over six.
    """
    check_integer("enlarge", enlarge)
    check_integer("copies", copies)
    rng = np.random.default_rng(check_integer("seed", seed, minimum=0))
    digits = load_digits(directory, source)
    images, labels = _together(digits)
    splits = _split(labels, rng)
    factors = rng.uniform(*FACTORS, len(labels))

    def load(split: str, count: int | None = None, copies: int = 1) -> LabelledImages:
        chosen = splits[split][: checked_count(count, len(splits[split]))]
        shrunk = [rescale(images[i], float(factors[i])) for i in chosen]
        parts = [[rescale(image, enlarge=enlarge) for image in shrunk]]
        for _ in range(copies - 1):
            others = rng.uniform(*FACTORS, len(chosen)) / factors[chosen]
            pairs = zip(shrunk, others, strict=True)
            parts.append([rescale(image, float(factor), enlarge) for image, factor in pairs])
        return LabelledImages(np.concatenate(parts)[..., None], np.tile(labels[chosen], copies))

    tested = load(check_test_split(test_split), test_count)
    return ImageData(
        name="mnist_scale",
        train=load("train", count, copies),
        validation=load("validation"),
        test=lambda size: tested,
        test_sizes=(1.0,),
        class_names=CLASS_NAMES,
        preprocessor=keras.layers.Rescaling(1 / 255),
    )


def rescale(digit: np.ndarray, factor: float = 1.0, enlarge: int = 1) -> np.ndarray:
    """A digit rescaled about its middle in its frame, and then with its frame; uint8."""
    image = import_pillow().Image
    height, width = digit.shape
    affine = (1 / factor, 0, width / 2 * (1 - 1 / factor))
    affine += (0, 1 / factor, height / 2 * (1 - 1 / factor))
    picture = image.fromarray(digit)
    if factor != 1:
        picture = picture.transform(
            (width, height), image.Transform.AFFINE, affine, image.Resampling.BICUBIC
        )
    if enlarge > 1:
        picture = picture.resize((enlarge * width, enlarge * height), image.Resampling.BICUBIC)
    return np.asarray(picture)


def _together(digits: Digits) -> tuple[np.ndarray, np.ndarray]:
    images = np.concatenate([digits.x_train, digits.x_test])
    return images, np.concatenate([digits.y_train, digits.y_test])


def _split(labels: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Indices of each split: of each class its share, in random order."""
    share = min(1.0, len(labels) / sum(COUNTS.values()))
    ends = np.cumsum([0, *COUNTS.values()]) * share / len(labels)
    parts: dict[str, list[np.ndarray]] = {split: [] for split in COUNTS}
    for label in range(len(CLASS_NAMES)):
        own = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.rint(ends * len(own)).astype(int)
        for split, low, high in zip(COUNTS, cuts, cuts[1:], strict=False):
            parts[split].append(own[low:high])
    return {split: rng.permutation(np.concatenate(part)) for split, part in parts.items()}
