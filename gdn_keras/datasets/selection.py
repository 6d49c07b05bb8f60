"""Which images are held out, and which are left when fewer are wanted."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from gdn_keras.checks import check_choice, check_integer

Item = TypeVar("Item")

TEST_SPLITS = ("test", "validation")


def check_test_split(test_split: str) -> str:
    """What is tested on: test images or, to choose between networks, validation images."""
    return check_choice("test_split", test_split, TEST_SPLITS)


def hold_out(items: Sequence[Item], share: float, rng: np.random.Generator) -> set[Item]:
    """A random `share` of two or more items: at least one of them, and never all."""
    count = min(max(1, round(share * len(items))), len(items) - 1)
    return {items[i] for i in rng.permutation(len(items))[:count]}


def spread(items: Sequence[Item], count: int | None) -> Sequence[Item]:
    """`count` of the items at equal distances; all if there are no more, or `count` is `None`."""
    if count is None or check_integer("count", count) >= len(items):
        return items
    return [items[k * len(items) // count] for k in range(count)]


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
