"""What plain CNNs are trained on beside our networks, and how."""

import dataclasses
from collections.abc import Callable
from typing import Any

from gdn_keras.training import Recipe


@dataclasses.dataclass(frozen=True)
class Task:
    """Images, and what a CNN has to know of them.

    Attributes:
        data: As for `load_dataset`.
        options: Of the data set.
        recipe: How to train, without a run to compare with.
        window: Height and width of a level of the pyramid, about the objects in training.
        boundary: What lies beyond an image.
        extent: Extent of what is seen, from a size of the data set.
        cnn: Fields of the recipe that the CNNs have of their own.
        head, dropout: Of the CNNs, as for `plain_cnn`.
        crop: Height and width of what CNNs without a pyramid see of an image; all if `None`.
        per_octave: Levels of the pyramid in an octave.
    """

    data: str
    options: dict[str, Any]
    recipe: Recipe
    window: int
    boundary: str = "edge"
    extent: Callable[[float], float] = float
    cnn: dict[str, Any] = dataclasses.field(default_factory=dict)
    head: str = "average"
    dropout: float = 0.0
    crop: int | None = None
    per_octave: int = 2


_RESCALED = {"train_sizes": (1,), "test_sizes": tuple(2 ** (k / 4) for k in range(-4, 5))}
TASKS = {
    "large_scale": Task(
        "mnist_large_scale", {"train_sizes": (2,)}, Recipe(augment=(56.0, 56.0)), window=64
    ),
    "gtsrb": Task(
        "gtsrb",
        {},
        Recipe(widths=(24, 32, 48, 64, 96), epochs=8, augment=(33.5, 112.0)),
        window=48,
        cnn={"loss": "softmax", "learning_rate": 0.003},
        head="flatten",
        dropout=0.5,
        crop=48,
    ),
    "fashion_mnist": Task(
        "fashion_mnist_large_scale",
        {**_RESCALED, "frame": 72},
        Recipe(epochs=3),
        window=36,
        cnn={"loss": "softmax", "learning_rate": 0.003},
        per_octave=4,
    ),
    "cifar10": Task(
        "cifar10",
        _RESCALED,
        Recipe(network="large", epochs=4),
        window=32,
        boundary="symmetric",
        cnn={"loss": "softmax"},
        crop=32,
        per_octave=4,
    ),
    "kth_tips": Task(
        "kth_tips",
        {},
        Recipe(widths=(16, 24, 32, 48), epochs=16),
        window=112,
        boundary="symmetric",
        extent=lambda distance: 5 ** (-distance / 8),  # a factor of five from 1 to 9
    ),
}
