"""Data sets: images with labels, how they are split, and what they are called."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import keras
import numpy as np

from gdn_keras.checks import check_choice, check_integer, require

Item = TypeVar("Item")
Loader = TypeVar("Loader", bound=Callable[..., Any])


class LazyImages:
    """Images that are made as they are read: indexed along the first axis as an array is.

    `np.asarray` makes all of them.

    Args:
        shape: `[n, height, width, channels]`, of all images.
        read: Function from indices `[m]`, none of them negative, to these images.
        dtype: Of the pixels.
    """

    def __init__(
        self, shape: Sequence[int], read: Callable[[np.ndarray], np.ndarray], dtype: Any = "uint8"
    ) -> None:
        self.shape = tuple(shape)
        self.read = read
        self.dtype = np.dtype(dtype)
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        indices = np.arange(len(self))[index]
        return self.read(np.ravel(indices)).reshape(*np.shape(indices), *self.shape[1:])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


def check_labels(images: Any, labels: Any, ranks: Sequence[int] = (3, 4)) -> np.ndarray:
    """`labels` as an array, once images and labels have been found to fit together."""
    shape, dtype = getattr(images, "shape", ()), getattr(images, "dtype", None)
    if len(shape) not in ranks or np.dtype(dtype).kind not in "uif":
        known = f"[n, height, width, channels]{' or [n, height, width]' * (3 in ranks)}"
        text = f"`images` must be numbers of shape {known}."
        raise ValueError(f"{text} Received: shape {tuple(shape)}, dtype {dtype}")
    labels = np.asarray(labels)
    if labels.shape != tuple(shape[:1]) or labels.dtype.kind not in "ui":
        text = f"`labels` must be integers, one for each of the {len(images)} images."
        raise ValueError(f"{text} Received: shape {labels.shape}, dtype {labels.dtype}")
    return labels


def check_classes(name: str, labels: np.ndarray, num_classes: int) -> None:
    """Raise unless the labels are numbers of classes."""
    if labels.min() < 0 or labels.max() >= check_integer("num_classes", num_classes):
        text = f"`{name}` must lie in [0, {num_classes}), one number for each class."
        raise ValueError(f"{text} Received: labels from {labels.min()} to {labels.max()}")


@dataclass(frozen=True)
class LabelledImages:
    """Images as they are stored, and a label for each; `images, labels = …` unpacks them.

    Attributes:
        images: `[n, height, width, channels]`, integers or floats. Whatever is indexed along its
            first axis like an array will do, so images may stay on disk until they are wanted.
        labels: Integers `[n]`.
    """

    images: np.ndarray | LazyImages
    labels: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", check_labels(self.images, self.labels, ranks=(4,)))

    def __iter__(self) -> Iterator[Any]:
        return iter((self.images, self.labels))


@dataclass(frozen=True)
class ImageData:
    """A data set: what a network is trained, validated and tested on, and what it must know of it.

    Attributes:
        name: As in `load_dataset(name)`.
        train: Training images: pixels where there is a `preprocessor`.
        validation: Images held out of the training, in frames of the same size.
        test: Function from a size to the test images of that size, made when they are asked for.
            Their frame may be larger than that of the training images.
        test_sizes: The sizes to test at; none if empty.
        class_names: What label 0, 1, 2, … means.
        preprocessor: Keras layer from pixels of 0 to 255 to what the network takes; `None` for
            images that are prepared already, of any range.
        size_name: What a size is, as it should stand below an axis.
        train_sizes: Sizes of the objects in `train`, in units of `test_sizes`; empty if unknown.
        extent: About how many pixels an object in `train` is wide; `None` if it fills the frame.
    """

    name: str
    train: LabelledImages
    validation: LabelledImages
    test: Callable[[float], LabelledImages]
    test_sizes: tuple[float, ...]
    class_names: tuple[str, ...]
    preprocessor: keras.Layer | None = None
    size_name: str = "size"
    train_sizes: tuple[float, ...] = ()
    extent: float | None = None

    def __post_init__(self) -> None:
        for name, kind in (("test_sizes", float), ("train_sizes", float), ("class_names", str)):
            object.__setattr__(self, name, tuple(map(kind, getattr(self, name))))
        different = len(set(self.class_names)) == len(self.class_names)
        require(different, "class_names", "be different", self.class_names)
        for part in ("train", "validation"):
            labels = getattr(self, part).labels
            if not labels.size:
                raise ValueError(f"`{part}` must hold images. Received: none")
            check_classes(f"{part}.labels", labels, len(self.class_names))


def concatenate(parts: Sequence[LabelledImages]) -> LabelledImages:
    """Several sets of images as one; those on disk stay there."""
    if len(parts) == 1:
        return parts[0]
    arrays = [part.images for part in parts]
    ends = np.cumsum([len(array) for array in arrays])
    shape, dtype = (int(ends[-1]), *arrays[0].shape[1:]), arrays[0].dtype

    def read(indices: np.ndarray) -> np.ndarray:
        which = np.searchsorted(ends, indices, side="right")
        images = np.empty((len(indices), *shape[1:]), dtype)
        for k, array in enumerate(arrays):
            start = ends[k] - len(array)
            images[which == k] = array[indices[which == k] - start]
        return images

    labels = np.concatenate([part.labels for part in parts])
    return LabelledImages(LazyImages(shape, read, dtype), labels)


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
    text = f"be between 1 and {available}, the images that there are"
    require(check_integer("count", count) <= available, "count", text, count)
    return count


_LOADERS: dict[str, Callable[..., ImageData]] = {}


def register_dataset(name: str) -> Callable[[Loader], Loader]:
    """Decorator that makes a function a data set: `(directory=None, **options) -> ImageData`.

    >>> @register_dataset("two_dots")  # doctest: +SKIP
    ... def load_two_dots(directory=None, *, frame=32):
    ...     return ImageData(name="two_dots", …)
    >>> load_dataset("two_dots", frame=48)  # doctest: +SKIP
    """

    def register(loader: Loader) -> Loader:
        known = _LOADERS.get(name, loader)
        taken, new = (f"{f.__module__}.{f.__qualname__}" for f in (known, loader))
        require(taken == new, "name", f"not be taken by another data set, {taken}", name)
        _LOADERS[name] = loader
        return loader

    return register


def load_dataset(
    name: str, directory: str | os.PathLike | None = None, **options: Any
) -> ImageData:
    """A data set by its name.

    Example:

    >>> data = load_dataset("mnist_large_scale", train_sizes=(2,))  # doctest: +SKIP
    >>> images, labels = data.test(4)  # doctest: +SKIP

    Args:
        name: One of `dataset_names()`.
        directory: Where its files are; `None` for data that come with the package.
        **options: As the function of this name takes them.
    """
    require(name in _LOADERS, "name", f"be one of {dataset_names()}", name)
    return _LOADERS[name](directory, **options)


def dataset_names() -> tuple[str, ...]:
    """All names that `load_dataset` knows, sorted."""
    return tuple(sorted(_LOADERS))
