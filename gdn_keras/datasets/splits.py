"""Which images train, validate and test, and which are left when fewer are wanted."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from gdn_keras.checks import check_choice, check_integer
from gdn_keras.datasets.digits import Digits

Item = TypeVar("Item")

SPLITS = ("train", "validation", "test")


def check_test_split(test_split: str) -> str:
    """What is tested on: test images or, to choose between networks, validation images."""
    return check_choice("test_split", test_split, ("test", "validation"))


def hold_out(items: Sequence[Item], share: float, rng: np.random.Generator) -> set[Item]:
    """A random `share` of two or more items: at least one of them, and never all."""
    count = min(max(1, round(share * len(items))), len(items) - 1)
    return {items[i] for i in rng.permutation(len(items))[:count]}


def checked_count(count: int | None, available: int) -> int:
    """`count`, which must not exceed what is there; all of it if `None`."""
    if count is None:
        return available
    if check_integer("count", count) > available:
        raise ValueError(
            f"`count` must be between 1 and {available}, the images that there are. "
            f"Received: count={count}"
        )
    return count


def select_split(
    source: Digits, split: str, count: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of a split, checked."""
    check_choice("split", split, SPLITS)
    if not isinstance(source, Sequence) or len(source) != 4:
        raise ValueError(f"`source` must be `Digits`, four arrays. Received: source={source!r}")
    images, labels = source[2:] if split == "test" else source[:2]
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ValueError(
            "`source` must hold images [n, height, width] and as many labels [n]. "
            f"Received: shapes {images.shape} and {labels.shape}"
        )
    if split != "test":
        validation = 10_000 if len(images) == 60_000 else len(images) // 10
        part = slice(len(images) - validation, None)
        part = part if split == "validation" else slice(0, part.start)
        images, labels = images[part], labels[part]
    count = checked_count(count, len(images))
    return images[:count], labels[:count]
